"""Signals over depth: gradients and activations that vanish or explode along the spine, samples that become alike."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradlab.spec.numerals import written
from gradlab.torch.findings import Finding
from gradlab.torch.spine import find_spine

if TYPE_CHECKING:
    from gradlab.torch.results import ProbeResults
    from gradlab.torch.statistics import ModuleStatistics

VANISHED, EXPLODED = 1e-4, 1e4
"""First over last: below the first bound a signal has vanished, above the second it has exploded."""
STEPWISE = math.log(100.0)
"""What must be left of a trend without its largest step, as a logarithm."""
FEWEST = 4
"""Modules that a trend needs."""
STILL = 1e-7
"""Update ratio below which a weight hardly moves."""
ALIKE = 1e-6
"""Share of the energy that differs between samples, below which they look alike."""
ADAPTIVE = ("Adam", "RMSprop", "Adagrad", "Adadelta", "Lion", "Adafactor", "NAdam", "RAdam", "Lamb", "Muon")


def find(probe: ProbeResults) -> Iterator[Finding]:
    """Compare both signals at the beginning of the network with those at its end."""
    rows = choose_rows(probe)
    alike, moves = find_alike(rows), is_excused(probe)
    yield from _find_gradients(probe, rows, excused=moves and alike is None)
    yield from _find_activations(probe, rows, excused=moves and alike is None)
    if alike is not None and moves and has_vanished(rows):
        yield describe_alike(rows, alike)


def choose_rows(probe: ProbeResults) -> list[ModuleStatistics]:
    """Return the spine; all modules if it is too short for a trend."""
    rows = find_spine(probe.model, probe.records)
    if sum(bool(row.delta) for row in rows) >= FEWEST:
        return rows
    return [row for row in sorted(probe.modules.values(), key=lambda row: row.order) if not row.idle]


def is_excused(probe: ProbeResults) -> bool:
    """Whether an adaptive optimizer moves every matrix, however small its gradient."""
    moved = [w.update_ratio for w in probe.weights if w.update_ratio is not None and len(w.shape) > 1]
    adaptive = bool(probe.optimizers) and all(type(o).__name__.startswith(ADAPTIVE) for o in probe.optimizers)
    return adaptive and bool(moved) and min(moved) > STILL


def first_to_last(values: Sequence[float]) -> float:
    """Return the ratio of the first value to the last, as the table shows them.

    It is 1 unless the medians of the first and the last quarter confirm it, and unless it is made of several steps: one
    module of an odd size is no trend, and neither is one jump (a scale of 1e-5 on a branch, pooling, a class token).
    """
    count = min(max(2, len(values) // 4), len(values) // 2)
    ends = values[0] / values[-1]
    quarters = float(np.median(values[:count]) / np.median(values[-count:]))
    agree = (ends < VANISHED and quarters < VANISHED) or (ends > EXPLODED and quarters > EXPLODED)
    jumps = [math.log(a / b) for a, b in itertools.pairwise(values)]
    rest = math.log(ends) - (min(jumps) if ends < 1 else max(jumps))
    return ends if agree and abs(rest) > STEPWISE and (rest < 0) == (ends < 1) else 1.0


def has_vanished(rows: Sequence[ModuleStatistics]) -> bool:
    """Whether the backprop signal vanishes along these rows."""
    values = [row.delta for row in rows if row.delta]
    return len(values) >= FEWEST and first_to_last(values) < VANISHED


def find_alike(rows: Sequence[ModuleStatistics]) -> ModuleStatistics | None:
    """Return the first row from which on all samples look alike, if they do so before the head, else None."""
    known = [row for row in rows if row.spread is not None]
    if len(known) < FEWEST or (known[0].spread or 0.0) < ALIKE:
        return None
    top = known[-max(3, len(known) // 3) :]
    if any((row.spread or 0.0) > ALIKE for row in top):
        return None
    last_apart = max(place for place, row in enumerate(known) if (row.spread or 0.0) > ALIKE)
    return known[last_apart + 1]


def describe_alike(rows: Sequence[ModuleStatistics], alike: ModuleStatistics) -> Finding:
    """The finding of samples that cannot be told apart any more."""
    known = [row for row in rows if row.spread is not None]
    return Finding(
        "samples look alike", f"from {alike.name} on",
        f"the network gives every sample the same answer: after {known[0].name}, "
        f"{100 * (known[0].spread or 0):.2g} % of the activations' energy differs between samples, after "
        f"{known[-1].name} only "
        f"{written(100 * (known[-1].spread or 0))} %",
        "put a skip around every layer with the norm inside the branch (pre-norm), scale branches by 1/√depth, "
        "use fewer layers or an unbounded activation, or warm up the learning rate",
    )  # fmt: skip


def _find_gradients(probe: ProbeResults, rows: Sequence[ModuleStatistics], *, excused: bool) -> Iterator[Finding]:
    # a gradient that is exactly 0 everywhere is a cut, not a decay: the check of the weights reports it
    positive = [(row.name, row.delta) for row in rows if row.delta]
    if len(positive) < FEWEST:
        return
    values = [value for _, value in positive]
    ratio, count = first_to_last(values), len(values) - 1
    where = f"{positive[0][0]} to {positive[-1][0]}"
    if ratio < VANISHED and not excused:
        yield Finding(
            "vanishing gradients", where,
            f"the backprop signal shrinks by a factor of {written(1 / ratio)} from the last module to the first, "
            f"{written(ratio ** (-1 / count), 2)} per module",
            "use an initialization with gain 1 (He for ReLU), skips, or normalization",
        )  # fmt: skip
    elif ratio > EXPLODED:
        yield Finding(
            "exploding gradients", where,
            f"the backprop signal grows by a factor of {written(ratio)} from the last module to the first, "
            f"{written(ratio ** (1 / count), 2)} per module",
            "use smaller initial weights or normalization, scale branches by 1/√depth, or clip gradients",
        )  # fmt: skip


def _find_activations(probe: ProbeResults, rows: Sequence[ModuleStatistics], *, excused: bool) -> Iterator[Finding]:
    sizes = [(row.name, row.rms) for row in rows if row.rms > 0]
    if len(sizes) < FEWEST:
        return
    values = [value for _, value in sizes]
    growth, where = 1 / first_to_last(values), f"{sizes[0][0]} to {sizes[-1][0]}"
    if growth > EXPLODED:
        yield Finding(
            "exploding activations", where,
            f"activations grow by a factor of {written(growth)} from the first module to the last",
            "use smaller initial weights or normalization, or scale branches by 1/√depth",
        )  # fmt: skip
    elif growth < VANISHED and not excused:
        yield Finding(
            "vanishing activations", where,
            f"activations shrink by a factor of {written(1 / growth)} from the first module to the last",
            "use an initialization with gain 1 (He for ReLU), or normalization",
        )  # fmt: skip

"""The results of a bundle on their way back to the coordinator: few large arrays instead of thousands of small ones.

results of a bundle ─▶ pattern: names, steps, layers, shapes; once for all trials that share it
                       line:    one trial: id, status, metrics, error, seconds, digest, the number of its pattern
                       arrays:  all curves, layer values and parameters end to end, one vector per type

Pickling a small array costs as much as copying ten kilobytes, and a trial of some milliseconds has a dozen of them:
packed one by one they would be the largest cost of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.layout import Layout
from gradlab.trials.outcome import Curve, LayerTable, Outcome, Snapshot
from gradlab.trials.result import TrialResult
from gradlab.trials.trial import TrialLabel

Line = tuple[str, str | None, float, str, str, int, tuple[Any, ...]]
"""Id, error, seconds, digest, status, number of the pattern (−1: no outcome), values of the metrics."""


@dataclass(frozen=True)
class Pattern:
    """What the outcomes of similar trials share: everything but their numbers."""

    metrics: tuple[str, ...]
    curves: tuple[tuple[str, NDArray[np.int64]], ...]
    """Metric and steps of every curve."""
    layers: tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]
    """Step, layer and measure of every layer value."""
    kept: tuple[tuple[int, Layout, tuple[str, ...]], ...]
    """Step, layout and names of the running statistics of every snapshot."""
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    """Type and shape of every array: values of the curves, of the layers, then parameters and running statistics."""

    def fits(self, outcome: Outcome, arrays: Sequence[NDArray[Any]]) -> bool:
        """Whether an outcome differs from this pattern in its numbers only."""
        step, layer, measure = self.layers
        return (
            self.metrics == tuple(outcome.metrics)
            and self.arrays == _describe(arrays)
            and len(self.curves) == len(outcome.curves)
            and all(
                metric == curve.metric and _same(steps, curve.steps)
                for (metric, steps), curve in zip(self.curves, outcome.curves, strict=True)
            )
            and _same(step, outcome.layers.step)
            and _same(layer, outcome.layers.layer)
            and measure == outcome.layers.measure
            and self.kept == _kept(outcome)
        )


@dataclass(frozen=True)
class Freight:
    """The results of a bundle without their trials, which the coordinator has."""

    lines: tuple[Line, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    vectors: Mapping[str, NDArray[Any]] | None = None
    """All arrays of a type, end to end, in the order of the lines."""

    @property
    def ids(self) -> list[str]:
        """The trials that have a result here."""
        return [line[0] for line in self.lines]


def load_results(results: Sequence[TrialResult]) -> Freight:
    """Pack results. The parameters after the last step stay behind: nobody reads them but who trained."""
    lines: list[Line] = []
    patterns: list[Pattern] = []
    vectors: dict[str, list[NDArray[Any]]] = {}
    number = -1
    for result in results:
        outcome = result.outcome
        about = result.trial.id, result.error, result.seconds, result.digest
        if outcome is None:
            lines.append((*about, "failed", -1, ()))
            continue
        arrays = _arrays(outcome)
        if number < 0 or not patterns[number].fits(outcome, arrays):
            number = next((n for n, one in enumerate(patterns) if one.fits(outcome, arrays)), len(patterns))
            if number == len(patterns):
                patterns.append(_pattern(outcome, arrays))
        for array in arrays:
            vectors.setdefault(array.dtype.str, []).append(array.reshape(-1))
        lines.append((*about, outcome.status, number, tuple(outcome.metrics.values())))
    joined = {kind: np.concatenate(pieces) for kind, pieces in vectors.items()}
    return Freight(tuple(lines), tuple(patterns), joined)


def unload_results(freight: Freight, trials: Mapping[str, TrialLabel]) -> list[TrialResult]:
    """Return results with their trials again; those of trials that are not in `trials` are left out."""
    ends = dict.fromkeys(freight.vectors or (), 0)
    found: list[TrialResult] = []
    for identity, error, seconds, digest, status, number, values in freight.lines:
        outcome = None
        if number >= 0:
            pattern = freight.patterns[number]
            arrays: list[NDArray[Any]] = []
            for kind, shape in pattern.arrays:
                start = ends[kind]
                ends[kind] = stop = start + prod(shape)
                flat = (freight.vectors or {})[kind][start:stop]
                arrays.append(flat if len(shape) == 1 else flat.reshape(shape))
            outcome = _outcome(status, values, pattern, iter(arrays))
        if identity in trials:
            found.append(TrialResult(trials[identity], outcome, error, seconds, digest))
    return found


def _outcome(status: Any, values: tuple[Any, ...], pattern: Pattern, arrays: Iterator[NDArray[Any]]) -> Outcome:
    curves = tuple([Curve(metric, steps, next(arrays)) for metric, steps in pattern.curves])
    layers = LayerTable(*pattern.layers, next(arrays))
    kept = tuple(
        [Snapshot(step, next(arrays), layout, {n: next(arrays) for n in names}) for step, layout, names in pattern.kept]
    )
    metrics = dict(zip(pattern.metrics, values, strict=True))
    return Outcome(status, metrics, curves, layers, layers.value[:0], kept)


def _arrays(outcome: Outcome) -> list[NDArray[Any]]:
    """All that differs between trials of a kind, in the order in which `_outcome` takes it."""
    kept = [array for snapshot in outcome.snapshots for array in (snapshot.theta, *snapshot.running.values())]
    return [*(curve.values for curve in outcome.curves), outcome.layers.value, *kept]


def _pattern(outcome: Outcome, arrays: Sequence[NDArray[Any]]) -> Pattern:
    layers = outcome.layers
    return Pattern(
        tuple(outcome.metrics),
        tuple((curve.metric, curve.steps) for curve in outcome.curves),
        (layers.step, layers.layer, layers.measure),
        _kept(outcome),
        _describe(arrays),
    )


def _kept(outcome: Outcome) -> tuple[tuple[int, Layout, tuple[str, ...]], ...]:
    return tuple([(kept.step, kept.layout, tuple(kept.running)) for kept in outcome.snapshots])


def _describe(arrays: Sequence[NDArray[Any]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple([(array.dtype.str, array.shape) for array in arrays])


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one is other or (one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())

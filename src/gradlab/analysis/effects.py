"""A factorial study taken apart: how much of what differs is due to each factor, and to pairs of them.

For a full grid with every seed in every cell, let y be the mean over seeds of a cell. With ȳ the mean of all cells and
a bar over the cells that share a level,

    main effect of level i:            ȳ_i − ȳ
    interaction of levels i, j:        ȳ_ij − ȳ_i − ȳ_j + ȳ

The size of an effect is its mean square over cells; its share is that over the mean square of all cells' deviations.
What is left is due to interactions of three and more. The range of a main effect (best level minus worst) has a t
interval over seeds: every seed has a whole grid of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.axis import axes_of
from gradlab.analysis.estimate import half_width
from gradlab.analysis.formatting import number
from gradlab.analysis.measured import Measured
from gradlab.parts import Catalog
from gradlab.spec.short import short

Numbers = NDArray[np.float64]
DECADES = 100
"""A positive metric whose largest value is so many times its smallest is taken apart on logs."""


@dataclass(frozen=True)
class MainEffect:
    """Of one factor: the marginal mean of each level, with an interval over seeds."""

    path: str
    levels: tuple[str, ...]
    means: tuple[float, ...]
    lows: tuple[float | None, ...]
    highs: tuple[float | None, ...]
    range: float
    """Best level minus worst."""
    range_low: float | None
    range_high: float | None
    share: float
    """Of the variance between cells."""


@dataclass(frozen=True)
class Interaction:
    """Of two factors: the share of the variance between cells that neither explains alone."""

    paths: tuple[str, str]
    share: float


@dataclass(frozen=True)
class Effects:
    """Largest first."""

    metric: str
    seeds: int
    mains: tuple[MainEffect, ...]
    interactions: tuple[Interaction, ...]
    rest: float
    """Share of interactions of three and more factors."""
    at_chance: int = 0
    """Diverged networks that have no accuracy and were counted at that of guessing."""
    logs: bool = False
    """Whether all of it is of log₁₀ of the metric, because it spans decades."""

    def size(self, effect: float) -> str:
        """A difference in words: a number, or of logs a factor."""
        return f"{number(10**effect, 3)}×" if self.logs else number(effect, 3)


def effects_of(measured: Measured, metric: str) -> Effects | None:
    """None where the groups are not a full grid of at least two factors, or a cell has no number."""
    axes = axes_of(measured)
    values, at_chance = _values(measured, metric)
    grid = _grid(measured, values, axes)
    if grid is None:
        return None
    logs = bool((grid > 0).all() and grid.max() > DECADES * grid.min())
    grid = np.log10(grid) if logs else grid
    paths, seeds = list(axes), grid.shape[-1]
    cells = grid.mean(-1)
    total = float(((cells - cells.mean()) ** 2).mean())
    mains = [_main(path, axes[path], grid, axis, total, measured.plan.catalog) for axis, path in enumerate(paths)]
    pairs = [
        Interaction((paths[i], paths[j]), _part(_interaction(cells, i, j), total))
        for i, j in combinations(range(len(paths)), 2)
    ]
    explained = sum(main.share for main in mains) + sum(pair.share for pair in pairs)
    return Effects(
        metric,
        seeds,
        tuple(sorted(mains, key=lambda main: -main.share)),
        tuple(sorted(pairs, key=lambda pair: -pair.share)),
        max(0.0, 1 - explained) if total > 0 else 0.0,
        at_chance,
        logs,
    )


def _values(measured: Measured, metric: str) -> tuple[dict[str, dict[int, float | int | None]], int]:
    """Values by group and seed. A network that diverged answers nothing: its accuracy is that of guessing."""
    found = {name: measured.values(metric, name) for name in measured.group_names}
    counted = 0
    for planned in measured.plan.groups if measured.metric(metric).kind == "accuracy" else ():
        for trial in measured.by_group[planned.group.name]:
            if measured.status(trial) == "diverged" and planned.classes and found[trial.group][trial.seed] is None:
                found[trial.group][trial.seed] = 1 / planned.classes
                counted += 1
    return found, counted


def _grid(
    measured: Measured, by_group: dict[str, dict[int, float | int | None]], axes: dict[str, tuple[Any, ...]]
) -> Numbers | None:
    """values[level of factor 1, …, seed] over the seeds that every cell has."""
    shape = tuple(len(values) for values in axes.values())
    if len(axes) < 2 or int(np.prod(shape)) != len(measured.plan.groups):
        return None
    there = [{s for s, v in found.items() if v is not None and np.isfinite(v)} for found in by_group.values()]
    seeds = sorted(set.intersection(*there))
    if not seeds:
        return None
    grid = np.full((*shape, len(seeds)), np.nan)
    for planned in measured.plan.groups:
        place = tuple(axes[path].index(planned.group.settings[path]) for path in axes)
        grid[place] = [by_group[planned.group.name][seed] for seed in seeds]
    return None if np.isnan(grid).any() else grid


def _main(path: str, values: Sequence[Any], grid: Numbers, axis: int, total: float, catalog: Catalog) -> MainEffect:
    others = tuple(other for other in range(grid.ndim - 1) if other != axis)
    by_seed = grid.mean(others)  # level × seed
    means = by_seed.mean(1)
    halves = [half_width(row) for row in by_seed]
    best, worst = int(means.argmax()), int(means.argmin())
    difference = by_seed[best] - by_seed[worst]
    half = half_width(difference)
    size = float(difference.mean())
    return MainEffect(
        path,
        tuple(short(path, value, catalog) for value in values),
        tuple(map(float, means)),
        tuple(None if h is None else float(m - h) for m, h in zip(means, halves, strict=True)),
        tuple(None if h is None else float(m + h) for m, h in zip(means, halves, strict=True)),
        size,
        None if half is None else size - half,
        None if half is None else size + half,
        _part(means - means.mean(), total),
    )


def _interaction(cells: Numbers, i: int, j: int) -> Numbers:
    others = tuple(axis for axis in range(cells.ndim) if axis not in (i, j))
    pair = cells.mean(others)
    found: Numbers = pair - pair.mean(1, keepdims=True) - pair.mean(0, keepdims=True) + pair.mean()
    return found


def _part(deviations: Numbers, total: float) -> float:
    return float((deviations**2).mean() / total) if total > 0 else 0.0

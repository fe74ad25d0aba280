"""What an axis of a study does to a metric.

First the groups along one axis, in series that differ in nothing else; then a factorial study taken apart: how much of
what differs is due to each factor, and to pairs of factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA, FLOAT, Median, Paired
from gradlab.analysis.rules.component import Component
from gradlab.analysis.sample import UNKNOWN, joint_copies, within
from gradlab.parts import Catalog
from gradlab.spec import selection
from gradlab.spec.naming import short
from gradlab.spec.paths import label
from gradlab.words import rounded

# The groups along one axis: which value each has there, and which series it belongs to.

LOG_FROM = 8
"""A numeric axis whose largest value is so many times its smallest is drawn by ratios."""


@dataclass(frozen=True)
class Series:
    """Groups that differ in nothing but the axis: (value on the axis, group), in the axis' order."""

    label: str
    points: tuple[tuple[Any, str], ...]


@dataclass(frozen=True)
class AxisView:
    """An axis with its values in order, and the groups along it."""

    path: str
    values: tuple[Any, ...]
    series: tuple[Series, ...]
    labels: tuple[str, ...]
    """The values in words."""

    @property
    def name(self) -> str:
        """The last word of the path: `depth`."""
        return self.path.split(".")[-1]

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers."""
        return all(_is_number(value) for value in self.values)

    @property
    def by_ratio(self) -> bool:
        """Whether it is to be drawn on a log axis."""
        return self.numeric and min(self.values) > 0 and max(self.values) / min(self.values) >= LOG_FROM

    def place(self, value: Any) -> float:
        """Where a value stands: itself if it is a number, else its number in the list."""
        return float(value) if self.numeric else float(self.values.index(value))


def axes_of(measured: Measured) -> dict[str, tuple[Any, ...]]:
    """Paths in which the groups differ, each with its values in order: numbers by size, others as they are written."""
    found = selection.axes_of([planned.group for planned in measured.plan.groups])
    return {path: tuple(sorted(v) if all(map(_is_number, v)) else v) for path, v in found.items()}


def axis_view(measured: Measured, path: str | None = None) -> AxisView | None:
    """The groups along a path; without one, along the numeric axis with most values, or else the longest."""
    axes = axes_of(measured)
    if not axes:
        return None
    chosen = path or max(axes, key=lambda name: (all(map(_is_number, axes[name])), len(axes[name])))
    if chosen not in axes:
        return None
    order, catalog = axes[chosen], measured.plan.catalog
    series: dict[str, list[tuple[Any, str]]] = {}
    for planned in measured.plan.groups:
        settings = planned.group.settings
        rest = ", ".join(
            f"{name.split('.')[-1]}={short(name, settings[name], catalog)}" for name in axes if name != chosen
        )
        series.setdefault(rest, []).append((settings[chosen], planned.group.name))
    ordered = {name: sorted(points, key=lambda point: order.index(point[0])) for name, points in series.items()}
    if any(len({_key(value) for value, _ in points}) < len(points) for points in ordered.values()):
        return None  # groups differ in something that is no path of theirs
    labels = tuple(short(chosen, value, catalog) for value in order)
    return AxisView(chosen, order, tuple(Series(name, tuple(points)) for name, points in ordered.items()), labels)


def _key(value: Any) -> str:
    return label(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def words(measured: Measured, group: str) -> list[str]:
    """What sets a group apart, one short word for each axis: `depth=50`, `init=he_normal`."""
    catalog = measured.plan.catalog
    planned = measured.entries[group]
    there = [path for path in axes_of(measured) if path in planned.group.settings]
    if measured.study.arms is not None or not there:
        return [group]
    return [f"{path.split('.')[-1]}={short(path, planned.group.settings[path], catalog)}" for path in there]


# A factorial study taken apart: how much of what differs is due to each factor, and to pairs of them.
#
# For a full grid with every seed in every cell, let y be a cell's number. With ȳ the mean of all cells and a bar over
# the cells that share a level,
#
#     main effect of level i:            ȳ_i − ȳ
#     interaction of levels i, j:        ȳ_ij − ȳ_i − ȳ_j + ȳ
#
# The size of an effect is its mean square over cells, estimated without bias from products of different seeds (see
# `rules.component`): noise alone has size 0 on average, not more. Its share is that over the sum of all. What is left
# is due to interactions of three and more. A network that diverged counts as the worst its metric can be, where that
# has an end (an accuracy of 0). Seeds in which a cell has no number otherwise cannot enter; how many they are is part
# of the result.

Numbers = NDArray[np.float64]
LARGE = 0.2
"""Share of an interaction from which on one number per factor misleads."""


@dataclass(frozen=True)
class MainEffect:
    """Of one factor: the center of each level over all other factors, with an interval over seeds."""

    path: str
    levels: tuple[str, ...]
    centers: tuple[Estimate, ...]
    range: Estimate
    """Best level minus worst, its interval corrected for having been picked among all pairs of levels."""
    component: Estimate
    """The unbiased variance between levels."""
    share: float
    """Of the variance between cells."""


@dataclass(frozen=True)
class Interaction:
    """Of two factors: the share of the variance between cells that neither explains alone."""

    paths: tuple[str, str]
    share: float


@dataclass(frozen=True)
class Conditional:
    """How far one factor moves the metric at one level of another, where the two act together."""

    path: str
    other: str
    level: str
    range: Estimate


@dataclass(frozen=True)
class Effects:
    """Largest first."""

    metric: str
    seeds: int
    """Seeds with a number in every cell."""
    mains: tuple[MainEffect, ...]
    interactions: tuple[Interaction, ...]
    rest: float
    """Share of interactions of three and more factors."""
    conditional: tuple[Conditional, ...] = ()
    """By level of the other factor, where an interaction is large."""
    left_out: int = 0
    """Seeds that cannot enter because a cell has no number."""
    diverged: int = 0
    trials: int = 0
    """Trials that diverged, of all that are planned."""
    logs: bool = False
    """Whether all of it is of log₁₀ of the metric."""

    def size(self, effect: float | None) -> str:
        """A difference in words: a number, or of logs a factor."""
        if effect is None or not self.logs:
            return rounded(effect)
        return f"{rounded(10 ** min(effect, 300.0))}×"


def is_full_grid(measured: Measured) -> bool:
    """Whether the groups are every combination of at least two factors."""
    axes = axes_of(measured)
    return len(axes) >= 2 and math.prod(map(len, axes.values())) == len(measured.plan.groups)


def effects_of(measured: Measured, metric: str) -> Effects | None:
    """None where the groups are not a full grid of at least two factors, or no seed has a number in every cell."""
    if not is_full_grid(measured):
        return None
    axes = axes_of(measured)
    shape = tuple(len(values) for values in axes.values())
    table = cell_numbers(measured, metric, measured.group_names)
    if not table:
        return None
    grid = np.empty((len(table), *shape))
    for index, planned in enumerate(measured.plan.groups):
        place: Any = tuple(axes[path].index(planned.group.settings[path]) for path in axes)
        grid[:, *place] = [row[index] for row in table.values()]
    return _effects(measured, metric, grid, axes)


def _effects(measured: Measured, metric: str, grid: Numbers, axes: dict[str, tuple[Any, ...]]) -> Effects:
    paths, seeds, catalog = list(axes), len(grid), measured.plan.catalog
    finest = FLOAT if on_logs(measured, metric) else measured.resolution(metric)
    total = _square(grid - grid.mean(tuple(range(1, grid.ndim)), keepdims=True))
    squares = [_square(_marginal(grid, (i,))) for i in range(len(paths))]
    pairs = list(combinations(range(len(paths)), 2))
    joint = [_square(_marginal(grid, pair)) for pair in pairs]
    rest = max(0.0, total - sum(squares) - sum(joint))
    whole = sum(max(0.0, square) for square in (*squares, *joint)) + rest

    def share(square: float) -> float:
        return max(0.0, square) / whole if whole > 0 else 0.0

    mains = [_main(path, axes[path], grid, i, share(squares[i]), finest, catalog) for i, path in enumerate(paths)]
    together = [Interaction((paths[i], paths[j]), share(square)) for (i, j), square in zip(pairs, joint, strict=True)]
    large = max(zip(pairs, joint, strict=True), key=lambda found: found[1])
    planned = sum(map(len, measured.planned_seeds.values()))
    return Effects(
        metric,
        seeds,
        tuple(sorted(mains, key=lambda main: -main.share)),
        tuple(sorted(together, key=lambda pair: -pair.share)),
        share(rest),
        tuple(_conditional(grid, axes, large[0], finest, catalog)) if share(large[1]) >= LARGE else (),
        len(own_seeds(measured, metric, measured.group_names)) - seeds,
        measured.counts()["diverged"],
        planned,
        on_logs(measured, metric),
    )


def on_logs(measured: Measured, metric: str) -> bool:
    """Whether a metric is taken apart on log₁₀: fixed by what it is."""
    return measured.metric(metric).on_logs


def own_seeds(measured: Measured, metric: str, groups: Sequence[str]) -> list[int]:
    """The planned seeds that do not repeat another in all of these groups."""
    samples = [measured.sample(metric, group) for group in groups]
    copies = joint_copies(samples)
    return [seed for seed in samples[0].ends if seed not in copies]


def cell_numbers(measured: Measured, metric: str, groups: Sequence[str]) -> dict[int, list[float]]:
    """Seed -> the number of each group, for the seeds that have a finite one in all of them and repeat no other."""
    known, logs = measured.metric(metric), on_logs(measured, metric)
    samples = [within(measured.sample(metric, group), known.bounds) for group in groups]
    found = {}
    for seed in own_seeds(measured, metric, groups):
        ends = [sample.ends.get(seed, UNKNOWN) for sample in samples]
        if all(low == high and math.isfinite(low) and (low > 0 or not logs) for low, high in ends):
            found[seed] = [math.log10(low) if logs else low for low, _ in ends]
    return found


def level_means(measured: Measured, metric: str, groups: Sequence[str], path: str) -> dict[int, list[float]]:
    """Seed -> the mean over each level of an axis, for the seeds that have a number in every group."""
    table = cell_numbers(measured, metric, groups)
    levels: dict[str, list[int]] = {}
    for index, name in enumerate(groups):
        levels.setdefault(label(measured.entries[name].group.settings[path]), []).append(index)
    return {
        seed: [float(np.mean([row[index] for index in members])) for members in levels.values()]
        for seed, row in table.items()
    }


def _main(
    path: str, values: Sequence[Any], grid: Numbers, axis: int, share: float, resolution: float, catalog: Catalog
) -> MainEffect:
    others = tuple(other + 1 for other in range(grid.ndim - 1) if other != axis)
    by_seed = grid.mean(others)  # seed × level
    return MainEffect(
        path,
        tuple(short(path, value, catalog) for value in values),
        tuple(Median(tuple(column), tuple(column)).estimate for column in by_seed.T.tolist()),
        _range(by_seed, resolution),
        Component(by_seed).estimate,
        share,
    )


def _range(by_seed: Numbers, resolution: float) -> Estimate:
    """Of means[seed, level]: best level minus worst, at the level of all pairs together."""
    means, levels = by_seed.mean(0), by_seed.shape[1]
    difference = tuple((by_seed[:, int(means.argmax())] - by_seed[:, int(means.argmin())]).tolist())
    return Paired(difference, difference, resolution=resolution).estimate_at(ALPHA / max(levels * (levels - 1) // 2, 1))


def _conditional(
    grid: Numbers, axes: dict[str, tuple[Any, ...]], pair: tuple[int, int], resolution: float, catalog: Catalog
) -> list[Conditional]:
    """The range of each factor of a pair at every level of the other."""
    paths, found = list(axes), []
    for one, other in (pair, pair[::-1]):
        rest = tuple(axis + 1 for axis in range(len(paths)) if axis not in pair)
        cells = np.moveaxis(grid.mean(rest, keepdims=True), (other + 1, one + 1), (1, 2))
        cells = cells.reshape(len(grid), cells.shape[1], cells.shape[2])
        for place, value in enumerate(axes[paths[other]]):
            level = short(paths[other], value, catalog)
            found.append(Conditional(paths[one], paths[other], level, _range(cells[:, place], resolution)))
    return found


def _marginal(grid: Numbers, kept: tuple[int, ...]) -> Numbers:
    """Deviations [seed, cells] due to these factors alone: of one its main effect, of two their interaction."""
    others = tuple(axis + 1 for axis in range(grid.ndim - 1) if axis not in kept)
    means = grid.mean(others)
    for axis in range(1, means.ndim):
        means = means - means.mean(axis, keepdims=True)
    found: Numbers = means
    return found


def _square(deviations: Numbers) -> float:
    """Their mean square over cells: unbiased, from products of different seeds; of one seed what there is."""
    flat = deviations.reshape(len(deviations), -1)
    seeds, cells = flat.shape
    if seeds == 1:
        return float((flat**2).mean())
    summed = flat.sum(0)
    return float((summed @ summed - (flat**2).sum()) / (seeds * (seeds - 1) * cells))

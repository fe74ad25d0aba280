"""The numbers a claim rests on, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradlab.analysis.collapse import collapse_of
from gradlab.analysis.measured import Measured
from gradlab.spec.paths import label
from gradlab.spec.place import At


@dataclass(frozen=True)
class Side:
    """One side of a claim: a group (or several, of which the mean is taken seed by seed), and where in it."""

    groups: tuple[str, ...]
    at: At
    over: At | None = None
    """A second place, by whose number the first one's is divided."""
    name: str = ""

    @property
    def label(self) -> str:
        """For people."""
        name = self.name or self.groups[0]
        if self.over is not None:
            return f"{name} (layer {self.at.layer} / layer {self.over.layer})"
        return name if self.at.layer is None else f"{name}, layer {self.at.layer}"


def by_seed(measured: Measured, metric: str, side: Side) -> dict[int, float]:
    """Seed -> value where it exists; below the smallest normal number of the trial's precision it is 0."""
    tables = [_of_group(measured, metric, group, side.at) for group in side.groups]
    if side.over is not None:
        below = [_of_group(measured, metric, group, side.over) for group in side.groups]
        tables = [_divided(top, bottom) for top, bottom in zip(tables, below, strict=True)]
    if len(tables) == 1:
        return tables[0]
    shared = [seed for seed in tables[0] if all(seed in table for table in tables)]
    if measured.metric(metric).kind == "accuracy":  # in a mean, a network that diverged answers by chance
        tables = [_at_chance(measured, group, table) for group, table in zip(side.groups, tables, strict=True)]
    return {seed: float(np.mean([table[seed] for table in tables])) for seed in shared}


def _at_chance(measured: Measured, group: str, table: Mapping[int, float]) -> dict[int, float]:
    chance = 1 / (measured.entries[group].classes or 1)
    return {seed: chance if math.isnan(value) else value for seed, value in table.items()}


def _of_group(measured: Measured, metric: str, group: str, at: At) -> dict[int, float]:
    top, _, bottom = (word.strip() for word in metric.partition("/"))
    values = _plain(measured, top, group, at)
    return _divided(values, _plain(measured, bottom, group, at)) if bottom else values


def _divided(top: Mapping[int, float], bottom: Mapping[int, float]) -> dict[int, float]:
    return {seed: value / bottom[seed] for seed, value in top.items() if bottom.get(seed)}


def _plain(measured: Measured, metric: str, group: str, at: At) -> dict[int, float]:
    if metric == "diverged":
        return {trial.seed: float(measured.status(trial) == "diverged") for trial in measured.by_group[group]}
    found: dict[int, float | int | None] = dict(measured.values(metric, group, at))
    if measured.metric(metric).of_outcome:  # a network that diverged has none: worse than any
        for trial in measured.by_group[group]:
            if found.get(trial.seed) is None and measured.status(trial) == "diverged":
                found[trial.seed] = math.nan
    smallest = _smallest(measured, group)
    return {seed: 0.0 if 0 < value < smallest else float(value) for seed, value in found.items() if value is not None}


def effect_by_seed(measured: Measured, metric: str, groups: Sequence[str], path: str) -> dict[int, float]:
    """Seed -> how far an axis moves the metric: the largest mean over a value of the axis minus the smallest."""
    levels: dict[str, list[str]] = {}
    for planned in measured.plan.groups:
        if planned.group.name in groups:
            levels.setdefault(label(planned.group.settings[path]), []).append(planned.group.name)
    means = [by_seed(measured, metric, Side(tuple(names), At())) for names in levels.values()]
    shared = [seed for seed in means[0] if all(seed in mean for mean in means)]
    return {seed: max(mean[seed] for mean in means) - min(mean[seed] for mean in means) for seed in shared}


def _smallest(measured: Measured, group: str) -> float:
    config = measured.entries[group].config
    return float(np.finfo("float64" if config is None else config.train.precision).tiny)


def pairs(first: Mapping[int, float], second: Mapping[int, float]) -> list[tuple[float, float]]:
    """Values of the seeds that both sides have."""
    return [(value, second[seed]) for seed, value in first.items() if seed in second]


def is_mixture(measured: Measured, metric: str, side: Side) -> bool:
    """Whether some networks of a group stayed at chance and some did not: no mean describes it."""
    group = side.groups[0]
    of_outcome = measured.metric(metric).of_outcome
    if len(side.groups) > 1 or not of_outcome or measured.entries[group].classes is None:
        return False
    found = collapse_of(measured, group)
    return found is not None and found.mixed

"""The numbers a claim rests on, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gradlab.analysis.collapse import collapse_of
from gradlab.analysis.measured import Measured
from gradlab.plan.plan import PlannedGroup
from gradlab.spec.place import At


@dataclass(frozen=True)
class Side:
    """One side of a claim: a group, and where in it."""

    group: str
    at: At

    @property
    def label(self) -> str:
        """For people."""
        return self.group if self.at.layer is None else f"{self.group}, layer {self.at.layer}"


def by_seed(measured: Measured, metric: str, side: Side) -> dict[int, float]:
    """Seed -> value where it exists; below the smallest normal number of the trial's precision it is 0."""
    top, _, bottom = (word.strip() for word in metric.partition("/"))
    values = _plain(measured, top, side)
    if bottom:
        divisors = _plain(measured, bottom, side)
        values = {seed: value / divisors[seed] for seed, value in values.items() if divisors.get(seed)}
    return values


def _plain(measured: Measured, metric: str, side: Side) -> dict[int, float]:
    if metric == "diverged":
        return {trial.seed: float(measured.status(trial) == "diverged") for trial in measured.by_group[side.group]}
    found = measured.values(metric, side.group, side.at)
    smallest = _smallest(measured, side.group)
    return {seed: 0.0 if 0 < value < smallest else float(value) for seed, value in found.items() if value is not None}


def _smallest(measured: Measured, group: str) -> float:
    return float(np.finfo(_planned(measured, group).group.config.train.precision).tiny)


def _planned(measured: Measured, group: str) -> PlannedGroup:
    return next(found for found in measured.plan.groups if found.group.name == group)


def pairs(first: Mapping[int, float], second: Mapping[int, float]) -> list[tuple[float, float]]:
    """Values of the seeds that both sides have."""
    return [(value, second[seed]) for seed, value in first.items() if seed in second]


def is_mixture(measured: Measured, metric: str, group: str) -> bool:
    """Whether some networks of a group stayed at chance and some did not: no mean describes it."""
    if not metric.endswith(("accuracy", "loss")) or _planned(measured, group).classes is None:
        return False
    found = collapse_of(measured, group)
    return found is not None and found.mixed

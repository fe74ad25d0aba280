"""One number for every planned seed, also for those that diverged, failed or were never run.

A seed's number lies between two ends. They are equal where it was measured, and where the metric says what it counts
as: a network that diverged is worse than any, a target that was never reached lies later than any. Where nobody can
say (a failed trial, a trial that is not there, NaN of a metric without a better), the ends are −∞ and ∞, and every
test takes the end that speaks against its conclusion. So no seed is ever left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from gradlab.spec.metric import Metric

Ends = tuple[float, float]
UNKNOWN: Ends = (-math.inf, math.inf)
Status = Literal["done", "diverged", "failed", "missing"]


@dataclass(frozen=True)
class Tally:
    """What became of the planned seeds."""

    planned: int = 0
    diverged: int = 0
    failed: int = 0
    missing: int = 0
    """Trials without this number: not run, failed, or without it."""
    nan: int = 0
    inf: int = 0
    minus_inf: int = 0
    zeros: int = 0


@dataclass(frozen=True)
class Sample:
    """Seed -> between which ends its number lies."""

    ends: Mapping[int, Ends]
    tally: Tally = field(default_factory=Tally)

    @property
    def unknown(self) -> int:
        """Seeds of whose number nothing is known."""
        return sum(low != high for low, high in self.ends.values())

    @property
    def known(self) -> list[float]:
        """The numbers that are known, infinite ones included."""
        return [low for low, high in self.ends.values() if low == high]


def sample_of(
    metric: Metric,
    planned: Sequence[int],
    values: Mapping[int, float | int | None],
    statuses: Mapping[int, str],
    smallest: float = 0.0,
) -> Sample:
    """Every planned seed's number; below the `smallest` normal number of the trial's precision it is 0."""
    ends, nan, missing = {}, 0, 0
    for seed in planned:
        value, status = values.get(seed), statuses.get(seed, "missing")
        if value is None:
            missing += 1
            ends[seed] = _absent(metric, status)
        elif math.isnan(value):
            nan += 1
            ends[seed] = _at(metric.worst)
        else:
            number = 0.0 if 0 < value < smallest else float(value)
            ends[seed] = (number, number)
    there = [float(v) for seed in planned if (v := values.get(seed)) is not None]
    counted = [statuses.get(seed, "missing") for seed in planned]
    tally = Tally(
        len(planned),
        counted.count("diverged"),
        counted.count("failed"),
        missing,
        nan,
        there.count(math.inf),
        there.count(-math.inf),
        there.count(0.0),
    )
    return Sample(ends, tally)


def _absent(metric: Metric, status: str) -> Ends:
    """What a number that is not there counts as."""
    if status == "diverged" and metric.sign:
        return _at(metric.worst)
    return _at(metric.worst_if_missing) if status in ("done", "diverged") else UNKNOWN


def _at(value: float | None) -> Ends:
    return UNKNOWN if value is None else (value, value)


def divided(top: Sample, bottom: Sample) -> Sample:
    """One number over another, seed by seed; 0/0 and ∞/∞ are unknown."""
    seeds = [seed for seed in top.ends if seed in bottom.ends]
    return Sample({seed: _quotient(top.ends[seed], bottom.ends[seed]) for seed in seeds}, top.tally)


def _quotient(top: Ends, bottom: Ends) -> Ends:
    a, b = top[0], bottom[0]
    if top[0] != top[1] or bottom[0] != bottom[1] or (a == 0 == b) or (math.isinf(a) and math.isinf(b)):
        return UNKNOWN
    if b == 0:
        return _at(math.copysign(math.inf, a))
    with np.errstate(over="ignore"):
        return _at(float(np.float64(a) / np.float64(b)))


def pooled(samples: Sequence[Sample]) -> Sample:
    """The mean over several groups, seed by seed."""
    if len(samples) == 1:
        return samples[0]
    seeds = [seed for seed in samples[0].ends if all(seed in sample.ends for sample in samples)]
    return Sample({seed: _mean([sample.ends[seed] for sample in samples]) for seed in seeds}, samples[0].tally)


def _mean(ends: Sequence[Ends]) -> Ends:
    if any(low != high for low, high in ends):
        return UNKNOWN
    found = float(np.mean([low for low, _ in ends]))
    return UNKNOWN if math.isnan(found) else (found, found)


def paired_seeds(first: Sample, second: Sample) -> list[tuple[Ends, Ends]]:
    """Both sides of every seed that is planned on both, in the order of seeds."""
    return [(first.ends[seed], second.ends[seed]) for seed in sorted(first.ends) if seed in second.ends]

"""One number for every planned seed, also for those that diverged, failed or were never run.

A seed's number lies between two ends. They are equal where it was measured, and where the metric says what it counts
as: a network that diverged is worse than any, a target that was never reached lies later than any. Where nobody can
say (a failed trial, a trial that is not there, NaN of a metric without a better), the ends are −∞ and ∞, and every
test takes the end that speaks against its conclusion. So no seed is ever left out.

Seeds stand in the order in which they were planned first: tests of the first so many take those, so that a seed added
later cannot become one of the first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from gradlab.spec.metric import Metric

Ends = tuple[float, float]
UNKNOWN: Ends = (-math.inf, math.inf)
Status = Literal["done", "diverged", "failed", "missing"]


@dataclass(frozen=True, slots=True)
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
    copies: frozenset[int] = frozenset()
    """Seeds whose network is that of an earlier seed, to the last digit: no draws of their own."""
    by_code: bool = False
    """Whether somebody's own code gave the numbers: it may have fixed its seed, while the lab never does."""

    @property
    def distinct(self) -> list[Ends]:
        """The numbers of all networks that are not copies of another."""
        return [ends for seed, ends in self.ends.items() if seed not in self.copies]

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
    ends = {seed: _quotient(top.ends[seed], bottom.ends[seed]) for seed in seeds}
    return replace(top, ends=ends, copies=joint_copies((top, bottom)))


def _quotient(top: Ends, bottom: Ends) -> Ends:
    a, b = top[0], bottom[0]
    if top[0] != top[1] or bottom[0] != bottom[1] or (a == 0 == b) or (math.isinf(a) and math.isinf(b)):
        return UNKNOWN
    if b == 0:
        return _at(math.copysign(math.inf, a))
    with np.errstate(over="ignore"):
        return _at(float(np.float64(a) / np.float64(b)))


def subtracted(first: Sample, second: Sample) -> Sample:
    """One number minus another, seed by seed; ∞ − ∞ is unknown."""
    ends = {seed: apart(own, second.ends[seed], logs=False) for seed, own in first.ends.items() if seed in second.ends}
    return replace(first, ends=ends, copies=joint_copies((first, second)))


def apart(first: Ends, second: Ends, *, logs: bool) -> Ends:
    """First minus second, or log(first/second).

    Equal numbers do not differ, also where both are 0. Of two infinite ones nobody can say: two networks that
    diverged are not alike. What is unknown on one side is unknown.
    """
    a, b = first[0], second[0]
    if a != first[1] or b != second[1] or (math.isinf(a) and a == b):
        return UNKNOWN
    if a == b:
        return (0.0, 0.0)
    if logs:
        a, b = (math.log(value) if value > 0 else -math.inf for value in (a, b))
    return (a - b, a - b)


def within(sample: Sample, bounds: tuple[float, float]) -> Sample:
    """Infinite ends moved to the bounds of the metric: a network that diverged is as bad as one can be."""
    return replace(sample, ends={seed: cut(ends, bounds) for seed, ends in sample.ends.items()})


def cut(ends: Ends, bounds: tuple[float, float]) -> Ends:
    """Infinite ends moved to these bounds."""
    low, high = (bounds[end > 0] if math.isinf(end) else end for end in ends)
    return low, high


def pooled(samples: Sequence[Sample], bounds: tuple[float, float] = UNKNOWN) -> Sample:
    """The mean over several groups, seed by seed; a group of which nothing is known leaves it between two ends."""
    if len(samples) == 1:
        return samples[0]
    cells = [within(sample, bounds).ends for sample in samples]
    seeds = [seed for seed in cells[0] if all(seed in ends for ends in cells)]
    tally = Tally(**{name: sum(getattr(sample.tally, name) for sample in samples) for name in Tally.__slots__})
    ends = {seed: mean_ends([ends[seed] for ends in cells]) for seed in seeds}
    return replace(samples[0], ends=ends, tally=tally, copies=joint_copies(samples))


def mean_ends(ends: Sequence[Ends]) -> Ends:
    """The mean of numbers between ends; of infinite ones with different signs nobody can say."""
    if len(ends) == 1:
        return ends[0]
    with np.errstate(invalid="ignore"):
        low, high = (float(np.mean(column)) for column in zip(*ends, strict=True))
    return (-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high)


def as_first_planned(seeds: Sequence[int], first_seen: Sequence[int]) -> tuple[int, ...]:
    """Seeds in the order in which they were first planned, as the ledger knows it; others come last."""
    place = {seed: place for place, seed in enumerate(first_seen)}
    return tuple(sorted(seeds, key=lambda seed: place.get(seed, len(place))))


def joint_copies(samples: Sequence[Sample]) -> frozenset[int]:
    """Seeds that tell nothing new of several groups together: of a pair, a pool, a grid.

    A network of the lab that is the same under every seed draws nothing at random; the other groups still vary, and so
    does what is made of all. Somebody's code that gives the same network every time has probably fixed its seed, and
    trained one.
    """
    copies = [sample.copies for sample in samples]
    return frozenset.union(*copies) if samples[0].by_code else frozenset.intersection(*copies)


def paired_seeds(cells: Sequence[tuple[Sample, Sample]]) -> list[list[tuple[Ends, Ends]]]:
    """Of every cell both sides, for the seeds that are planned in all of them, in the order in which they were planned.

    A seed that repeats another in all cells is no further pair.
    """
    samples = [sample for cell in cells for sample in cell]
    copies = joint_copies(samples)
    seeds = [s for s in samples[0].ends if s not in copies and all(s in sample.ends for sample in samples)]
    return [[(first.ends[s], second.ends[s]) for s in seeds] for first, second in cells]

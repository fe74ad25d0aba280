"""What the test of a claim gives: p-values of the ways it can come out, and the numbers they rest on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.rules import Median, Needed, Paired, Rule
from gradlab.analysis.rules.resampling import bootstrap_interval, permutation_p
from gradlab.analysis.sample import Sample

NEVER = 1.0


@dataclass(frozen=True)
class Reading:
    """What was measured on one side, or between two."""

    label: str
    estimate: Estimate
    zeros: int = 0
    """Exact zeros among the values."""
    diverged: int = 0
    unknown: int = 0
    """Seeds that failed, are missing or have no number: they count against every conclusion."""
    permutation: float | None = None
    bootstrap: tuple[float, float] | None = None
    """Shown beside, not deciding."""
    ratio: bool = False
    end_to_end: bool = False
    """Whether it compares the first with the last of an order."""


@dataclass(frozen=True)
class Test:
    """One-sided p-values of the ways a claim can come out, and what they rest on."""

    holds: float
    """Of its contrary: small if the claim holds."""
    direction: float
    """Small if at least the direction is right."""
    fails: float
    """Of the claim itself: small if it does not hold."""
    rule: str
    assumes: str
    readings: tuple[Reading, ...]
    needed: Callable[[float], Needed | None]
    """Level -> seeds that would settle it."""
    remark: str = ""
    order: bool = False
    """Whether it is a chain of steps, which one reversed step refutes."""

    @property
    def seeds(self) -> int:
        """The fewest seeds that any of its readings has."""
        return min(reading.estimate.n for reading in self.readings)

    @property
    def unknown(self) -> int:
        """The most seeds of any reading of which nothing is known."""
        return max(reading.unknown for reading in self.readings)


def every(tests: Sequence[Test]) -> Test:
    """A claim made of several groups holds if it holds of each; it fails if it fails of one (Bonferroni)."""
    worst = max(tests, key=lambda test: test.holds)
    return replace(
        worst,
        direction=max(test.direction for test in tests),
        fails=min(1.0, len(tests) * min(test.fails for test in tests)),
        readings=tuple(reading for test in tests for reading in test.readings),
        remark="; ".join(dict.fromkeys(filter(None, (test.remark for test in tests)))),
    )


def read_one(label: str, rule: Rule, sample: Sample) -> Reading:
    """One side."""
    return Reading(
        label, rule.estimate, sample.tally.zeros, sample.tally.diverged, sample.unknown, None, _bootstrap(rule)
    )


def read_two(label: str, rule: Paired, first: Sample, second: Sample) -> Reading:
    """One side against the other."""
    zeros = sum((0.0, 0.0) in (ends, second.ends.get(seed)) for seed, ends in first.ends.items()) if rule.logs else 0
    unknown = sum(low != high for low, high in zip(rule.low, rule.high, strict=True))
    permutation = None if rule.numbers is None else permutation_p(rule.numbers)
    diverged = first.tally.diverged + second.tally.diverged
    return Reading(label, rule.estimate, zeros, diverged, unknown, permutation, _bootstrap(rule), rule.logs)


def _bootstrap(rule: Rule) -> tuple[float, float] | None:
    if isinstance(rule, Paired):
        found = None if rule.numbers is None else bootstrap_interval(rule.numbers)
        if found is None or not rule.logs:
            return found
        low, high = np.exp(np.minimum(found, 709.0))
        return float(low), float(high)
    if isinstance(rule, Median) and rule.low == rule.high and np.isfinite(rule.low).all():
        return bootstrap_interval(np.array(rule.low))
    return None

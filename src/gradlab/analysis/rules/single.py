"""Rules for the number of one arm: its median by a sign test, or the share of its networks to which something happened.

Both are valid after any number of looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.rules.base import (
    Needed,
    Rule,
    first_number,
    likely_shares,
    middle,
    p_value,
    seeds_for_majority,
    share_evidence,
)
from gradlab.analysis.sample import Sample

# The median: it lies above a bound if more than half of all networks do. That asks for no distribution, and takes
# zeros, collapsed and diverged networks as they are. Five networks or fewer settle nothing: all of them fall on one
# side of the median by chance alone in one case of sixteen or more often.


@dataclass(frozen=True)
class Median(Rule):
    """Of values between these ends, one pair of ends per planned seed."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Between which the quantity lies: its interval where nothing narrower is valid."""

    stated = "Sign test on the median over seeds, valid after any number of looks"
    assumes = "seeds are independent draws"

    @staticmethod
    def of(sample: Sample, bounds: tuple[float, float]) -> Median:
        """Of every planned seed."""
        low, high = zip(*sample.distinct, strict=True)
        return Median(low, high, bounds)

    @property
    def n(self) -> int:
        """Planned seeds."""
        return len(self.low)

    def estimate_at(self, level: float) -> Estimate:
        """The median, and the order statistics that hold it."""
        rank = order_rank(self.n, level)
        low, high = self.bounds
        if rank:
            low = max(low, sorted(self.low)[rank - 1])
            high = min(high, sorted(self.high)[-rank])
        return Estimate(middle(self.low, self.high), low, high, self.n, "median", bounded=(low, high) == self.bounds)

    def p_above(self, bound: float) -> float:
        """So many values above the bound; a value on the bound, or unknown, speaks for neither side."""
        return p_value(share_evidence(sum(value > bound for value in self.low), self.n, 0.5))

    def p_below(self, bound: float) -> float:
        """So many values below."""
        return p_value(share_evidence(sum(value < bound for value in self.high), self.n, 0.5))

    def seeds_for(self, bound: float, level: float) -> Needed | None:
        """From how many of the seeds lie on one side."""
        above, below = sum(value > bound for value in self.low), sum(value < bound for value in self.high)
        return seeds_for_majority(max(above, below), self.n, level)


@cache
def order_rank(n: int, level: float) -> int:
    """r such that the r-th smallest and the r-th largest of n hold the median; 0 where none do."""
    rank = 0
    while rank < n // 2 and 2 * p_value(share_evidence(n - rank, n, 0.5)) <= level:
        rank += 1
    return rank


# The share of networks to which something happened, by an anytime-valid binomial test.


@dataclass(frozen=True)
class Proportion(Rule):
    """At least `count` of n, and of `unknown` more nobody can say."""

    count: int
    n: int
    unknown: int = 0

    stated = "Binomial test on the share of seeds, valid after any number of looks"
    assumes = "seeds are independent draws"

    @staticmethod
    def of(sample: Sample) -> Proportion:
        """Of 0 and 1 by seed."""
        ends = sample.distinct
        unknown = sum(low != high for low, high in ends)
        return Proportion(sum(low == high and low > 0 for low, high in ends), len(ends), unknown)

    def estimate_at(self, level: float) -> Estimate:
        """k/n with every share that is not refuted."""
        low, high = _ends(self, level)
        return Estimate(self.count / self.n, low, high, self.n, "share")

    def p_above(self, bound: float) -> float:
        """So many, if the share were the bound."""
        return p_value(share_evidence(self.count, self.n, bound))

    def p_below(self, bound: float) -> float:
        """So few."""
        return p_value(share_evidence(self.n - self.count - self.unknown, self.n, 1 - bound))

    def seeds_for(self, bound: float, level: float) -> Needed | None:
        """The number at which the shares that are likely now would settle it."""
        low, high = likely_shares(self.count, self.n)

        def settles(share: float) -> int | None:
            def enough(m: int) -> bool:
                again = Proportion(round(share * m), m)
                return 2 * min(again.p_above(bound), again.p_below(bound)) <= level

            return first_number(enough, self.n + 1)

        ends = [found for found in (settles(low), settles(high)) if found is not None]
        if not ends:
            return None
        return Needed(min(ends), max(ends) if len(ends) == 2 and not low <= bound <= high else None)


@cache
def _ends(found: Proportion, level: float) -> tuple[float, float]:
    """The shares between which none is refuted."""
    low = _edge(found.p_above, level) if found.count else 0.0
    none = found.n - found.count - found.unknown
    return low, 1 - _edge(lambda share: found.p_below(1 - share), level) if none else 1.0


def _edge(p: Callable[[float], float], level: float) -> float:
    """The share up to which the p-value stays below half the level."""
    low, high = 0.0, 1.0
    for _ in range(50):
        half = (low + high) / 2
        low, high = (half, high) if 2 * p(half) <= level else (low, half)
    return low

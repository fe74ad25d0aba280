"""The median of one arm over seeds, by an anytime-valid sign test.

The median lies above a bound if more than half of all networks do. That asks for no distribution, and takes zeros,
collapsed and diverged networks as they are. Five networks or fewer settle nothing: all of them fall on one side of
the median by chance alone in one case of sixteen or more often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.rules.base import Needed, Rule, first_number, likely_shares
from gradlab.analysis.rules.evidence import p_value, share_evidence
from gradlab.analysis.sample import Sample


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
        low, high = zip(*sample.ends.values(), strict=True)
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


def middle(low: tuple[float, ...], high: tuple[float, ...]) -> float | None:
    """The median of values between these ends; where they leave it open, of those that are known."""
    if low == high:
        return _middle(sorted(low))
    known = [a for a, b in zip(low, high, strict=True) if a == b]
    whole = [_middle(sorted(ends)) for ends in (low, high)]
    return whole[0] if whole[0] == whole[1] else _middle(sorted(known)) if known else None


def _middle(ordered: list[float]) -> float:
    n = len(ordered)
    low, high = ordered[(n - 1) // 2], ordered[n // 2]
    return low if low == high or math.isinf(low) else high if math.isinf(high) else (low + high) / 2


def seeds_for_majority(count: int, n: int, level: float) -> Needed | None:
    """Seeds at which the same majority settles it; the range comes from the share's own uncertainty."""
    low, high = likely_shares(count, n)

    def settles(share: float) -> int | None:
        if share <= 0.5:
            return None
        return first_number(lambda m: 2 * p_value(share_evidence(round(share * m), m, 0.5)) <= level, n + 1)

    fewest = settles(high)
    return None if fewest is None else Needed(fewest, settles(low))

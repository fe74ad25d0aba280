"""What a deciding rule is: an estimate with its interval, and how improbable the numbers are if it lay elsewhere.

Every p-value is anytime-valid (`rules.evidence`): it holds after any number of looks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import ClassVar

from gradlab.analysis.estimate import Estimate

ALPHA = 0.05
"""Share of settled verdicts that may be wrong."""
MOST_SEEDS = 10_000
"""Where the search for a sufficient number of seeds ends."""


@dataclass(frozen=True)
class Needed:
    """Seeds in all that would settle something: between the fewest and the most that the numbers make likely."""

    fewest: int
    most: int | None
    """None: no number up to 10,000."""


@dataclass(frozen=True)
class Rule(ABC):
    """Decides on which side of a bound the truth lies. `p_above(b)`: how improbable the data are if it is ≤ b."""

    stated: ClassVar[str]
    """The rule in one sentence, for the report."""
    assumes: ClassVar[str]
    """What it needs to be valid."""

    @cached_property
    def estimate(self) -> Estimate:
        """Center and 95 % interval."""
        return self.estimate_at(ALPHA)

    @abstractmethod
    def estimate_at(self, level: float) -> Estimate:
        """Center, and the interval that is wrong in at most this share of the cases."""

    @abstractmethod
    def p_above(self, bound: float) -> float:
        """One-sided p-value of `the truth is at most bound`; 1 where nothing can be said."""

    @abstractmethod
    def p_below(self, bound: float) -> float:
        """One-sided p-value of `the truth is at least bound`."""

    @abstractmethod
    def seeds_for(self, bound: float, level: float) -> Needed | None:
        """Seeds that would settle the side of this bound if the numbers go on as they are; None: nobody can say."""

    def p_inside(self, low: float, high: float) -> float:
        """Of `the truth lies outside`: both one-sided tests have to agree."""
        return max(0.0 if low == -inf else self.p_above(low), 0.0 if high == inf else self.p_below(high))

    def p_outside(self, low: float, high: float) -> float:
        """Of `the truth lies inside`: one of the one-sided tests is enough (twice the smaller p of the two)."""
        return min(1.0 if low == -inf else self.p_below(low), 1.0 if high == inf else self.p_above(high))


def first_number(enough: Callable[[int], bool], start: int) -> int | None:
    """The smallest number of seeds that is enough: every number at first, then in steps of 5 %."""
    n = start
    while n <= MOST_SEEDS:
        if enough(n):
            return n
        n = max(n + 1, int(n * 1.05))
    return None


def likely_shares(count: int, n: int) -> tuple[float, float]:
    """Between which shares k of n lies in four cases of five (Clopper-Pearson)."""
    from scipy.special import betaincinv

    low = 0.0 if count == 0 else float(betaincinv(count, n - count + 1, 0.1))
    high = 1.0 if count == n else float(betaincinv(count + 1, n - count, 0.9))
    return low, high

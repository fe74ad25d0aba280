"""What a deciding rule is: an estimate with its interval, and how improbable the numbers are if it lay elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import ClassVar

from gradlab.analysis.estimate import Estimate

ALPHA = 0.05
"""Share of settled verdicts that may be wrong."""
POWER = 0.8
MOST_SEEDS = 10_000
"""Where the search for a sufficient number of seeds ends."""


@dataclass(frozen=True)
class Rule(ABC):
    """Decides on which side of a bound the truth lies. `p_above(b)`: how improbable the data are if it is ≤ b."""

    stated: ClassVar[str]
    """The rule in one sentence, for the report."""

    @cached_property
    @abstractmethod
    def estimate(self) -> Estimate:
        """Center and 95 % interval."""

    @abstractmethod
    def p_above(self, bound: float) -> float:
        """One-sided p-value of `the truth is at most bound`; 1 where nothing can be said."""

    @abstractmethod
    def p_below(self, bound: float) -> float:
        """One-sided p-value of `the truth is at least bound`."""

    @abstractmethod
    def seeds_for(self, bound: float, level: float) -> int | None:
        """Seeds that would settle the side of this bound if the numbers go on as they are; None: too many to say."""

    def p_inside(self, low: float, high: float) -> float:
        """Of `the truth lies outside`: both one-sided tests have to agree."""
        return max(0.0 if low == -inf else self.p_above(low), 0.0 if high == inf else self.p_below(high))

    def p_outside(self, low: float, high: float) -> float:
        """Of `the truth lies inside`: one of the one-sided tests is enough (twice the smaller p of the two)."""
        return min(1.0 if low == -inf else self.p_below(low), 1.0 if high == inf else self.p_above(high))

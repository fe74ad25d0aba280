"""Exact binomial rules: a share of networks, and the median of a mixture.

A share k/n is set against a bound by the binomial distribution itself (Clopper-Pearson). A median lies above a bound
if more than half of all networks do: the sign test, which asks for no distribution and takes zeros, collapsed and
diverged networks as they are, smaller or larger than a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gradlab.analysis.estimate import Estimate, estimate_median, estimate_share
from gradlab.analysis.rules.base import MOST_SEEDS, Rule


def at_least(count: int, n: int, probability: float) -> float:
    """P(X ≥ count) of a binomial distribution."""
    from scipy.special import bdtrc

    if count <= 0:
        return 1.0
    return float(bdtrc(count - 1, n, min(max(probability, 0.0), 1.0)))


def at_most(count: int, n: int, probability: float) -> float:
    """P(X ≤ count)."""
    from scipy.special import bdtr

    return float(bdtr(count, n, min(max(probability, 0.0), 1.0))) if count < n else 1.0


@dataclass(frozen=True)
class Proportion(Rule):
    """The share of networks with a property."""

    count: int
    n: int
    stated = "Exact binomial (Clopper-Pearson) on the share of seeds"

    @cached_property
    def estimate(self) -> Estimate:
        """k/n with its exact interval."""
        found = estimate_share(self.count, self.n)
        assert found is not None
        return found

    def p_above(self, bound: float) -> float:
        """So many or more, if the share were the bound."""
        return at_least(self.count, self.n, bound) if bound >= 0 else 0.0

    def p_below(self, bound: float) -> float:
        """So few or fewer."""
        return at_most(self.count, self.n, bound) if bound <= 1 else 0.0

    def seeds_for(self, bound: float, level: float) -> int | None:
        """The smallest n at which the same share settles it."""
        observed = self.count / self.n
        for n in _numbers(self.n + 1):
            again = Proportion(round(observed * n), n)
            if 2 * min(again.p_above(bound), again.p_below(bound)) <= level:
                return n
        return None


@dataclass(frozen=True)
class Median(Rule):
    """The median of values by seed; ±inf are values like any other."""

    values: tuple[float, ...]
    paired: bool = False

    @property
    def stated(self) -> str:  # type: ignore[override]
        """Of what."""
        return f"Sign test (exact binomial) on the median {'of paired differences ' if self.paired else ''}over seeds"

    @cached_property
    def estimate(self) -> Estimate:
        """The median and the order statistics that hold it with at least 95 %; none below six seeds."""
        return estimate_median(self.values)

    def p_above(self, bound: float) -> float:
        """So many values above the bound, by tossing a coin; a value on the bound speaks for neither side."""
        return at_least(sum(value > bound for value in self.values), len(self.values), 0.5)

    def p_below(self, bound: float) -> float:
        """So many values below."""
        return at_least(sum(value < bound for value in self.values), len(self.values), 0.5)

    def seeds_for(self, bound: float, level: float) -> int | None:
        """The smallest n at which the same majority settles it."""
        n = len(self.values)
        majority = max(sum(value > bound for value in self.values), sum(value < bound for value in self.values)) / n
        return next((m for m in _numbers(n + 1) if 2 * at_least(round(majority * m), m, 0.5) <= level), None)


def _numbers(first: int) -> list[int]:
    """Every number at first, then in steps of 5 %."""
    found = [first]
    while found[-1] < MOST_SEEDS:
        found.append(max(found[-1] + 1, int(found[-1] * 1.05)))
    return found

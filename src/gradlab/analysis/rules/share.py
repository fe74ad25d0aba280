"""The share of networks to which something happened, by an anytime-valid binomial test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.rules.base import Needed, Rule, first_number, likely_shares
from gradlab.analysis.rules.evidence import p_value, share_evidence
from gradlab.analysis.sample import Sample


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
        return Proportion(sum(value > 0 for value in sample.known), len(sample.ends), sample.unknown)

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

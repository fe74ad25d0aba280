"""A variance component over seeds: how far an axis moves a metric, without the bias of a range or a square.

With d(s) the deviations of the levels' means from their mean under seed s, the products ⟨d(s), d(s′)⟩/L of two
different seeds have the variance between the true means as their expectation, also where that is 0 (a U-statistic).
With h(s) = ⟨d(s), mean of the others⟩/L, its jackknife pseudo-values v(s) = (2 (n−1) h(s) − n U)/(n−2) have mean U,
and are tested like independent ones.

The pseudo-value of a seed changes with every seed that comes after it, so no bet could have been placed on it at its
time. That is why there is no evidence at any time here, only tests of the first 5, 10, 20, 40 … seeds as they were
then, which share α: however often one looks, no others are made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.rules.base import Moments, Needed, Rule, floor

Numbers = NDArray[np.float64]
LOOKS = {5: 0.25, 10: 0.3, 20: 0.2, 40: 0.1, 80: 0.1, 160: 0.05}
"""Seeds -> the share of α that a test of the first so many may spend."""
FEWEST = min(LOOKS)


def pseudo_values(levels: Numbers) -> Numbers:
    """Of means[seed, level], from 3 seeds on: a number per seed; their mean is the unbiased variance of the levels."""
    seeds = len(levels)
    deviations = levels - levels.mean(1, keepdims=True)
    others = (deviations.sum(0) - deviations) / (seeds - 1)
    products = (deviations * others).mean(1)
    found: Numbers = (2 * (seeds - 1) * products - seeds * products.mean()) / (seeds - 2)
    return found


@dataclass(frozen=True, eq=False)
class Component(Rule):
    """The variance between levels of means[seed, level], less that of a second axis if there is one.

    It may come out negative where there is nothing.
    """

    levels: Numbers
    less: Numbers | None = None

    stated = "t-test on jackknifed variance components of the first 5, 10, 20, 40 … seeds, which share the level"
    assumes = "seeds are independent draws; components that vary about normally between them"

    @property
    def n(self) -> int:
        """Seeds."""
        return len(self.levels)

    def _values(self, n: int) -> Numbers:
        """Pseudo-values as they were after the first n seeds."""
        found = pseudo_values(self.levels[:n])
        return found if self.less is None else found - pseudo_values(self.less[:n])

    @cached_property
    def _looks(self) -> list[tuple[Moments, float]]:
        return [(Moments.of(self._values(n).tolist()), share) for n, share in LOOKS.items() if n <= self.n]

    @cached_property
    def _whole(self) -> Moments | None:
        return Moments.of(self._values(self.n).tolist()) if self.n > 2 else None

    def _p(self, bound: float, sign: int) -> float:
        if self._whole is None or sign * (self._whole.mean - bound) <= 0:
            return 1.0
        tails = [max(look.tail(sign * (look.mean - bound)), floor(look.n)) / share for look, share in self._looks]
        return min([1.0, *tails])

    def estimate_at(self, level: float) -> Estimate:
        """The component with its interval."""
        if self._whole is None or not self._looks:
            mean = None if self._whole is None else self._whole.mean
            return Estimate(mean, -math.inf, math.inf, self.n, "mean", bounded=True)
        halves = [
            (look.mean, look.distance(share * level / 2))
            for look, share in self._looks
            if 2 * floor(look.n) / share <= level
        ]
        mean = self._whole.mean
        low = max((center - half for center, half in halves), default=-math.inf)
        high = min((center + half for center, half in halves), default=math.inf)
        return Estimate(mean, min(low, mean), max(high, mean), self.n, "mean", bounded=not halves)

    def p_above(self, bound: float) -> float:
        """Evidence that it lies above."""
        return self._p(bound, 1)

    def p_below(self, bound: float) -> float:
        """Evidence that it lies below."""
        return self._p(bound, -1)

    def seeds_for(self, bound: float, level: float) -> Needed | None:
        """The next look that would settle it, from the effect in standard deviations and how surely that is known."""
        if self._whole is None or self.n < FEWEST:
            return None
        effect = abs(self._whole.mean - bound) / self._whole.spread
        sure = 1.28 * math.sqrt(1 / self.n + effect * effect / (2 * self.n))
        fewest = _next_look(effect + sure, self.n, level)
        return None if fewest is None else Needed(fewest, _next_look(effect - sure, self.n, level))


def clearest_component(n: int) -> float:
    """The smallest one-sided p that n seeds can give, however clear they are."""
    return min((floor(look) / share for look, share in LOOKS.items() if look <= n), default=1.0)


def _next_look(effect: float, done: int, level: float) -> int | None:
    for n, share in LOOKS.items():
        if n > done and effect > 0 and 2 * max(Moments(n, effect, 1.0).tail(effect), floor(n)) / share <= level:
            return n
    return None

"""A variance component over seeds: how far an axis moves a metric, without the bias of a range or a square.

With d(s) the deviations of the levels' means from their mean under seed s, the products ⟨d(s), d(s′)⟩/L of two
different seeds have the variance between the true means as their expectation, also where that is 0 (a U-statistic).
Its pseudo-values v(s) = 2 ⟨d(s), mean of the others⟩/L − U have mean U, and are tested like independent ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.rules.base import Needed, Rule
from gradlab.analysis.rules.evidence import critical_distance, mean_evidence, p_value
from gradlab.analysis.rules.paired import seeds_for_effect
from gradlab.analysis.rules.schedule import ANYTIME, FEWEST, Moments, latest_look


def pseudo_values(levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of means[seed, level]: one number per seed, whose mean is the unbiased variance between levels."""
    seeds = len(levels)
    deviations = levels - levels.mean(1, keepdims=True)
    if seeds < 2:
        return np.full(seeds, np.nan)
    others = (deviations.sum(0) - deviations) / (seeds - 1)
    products = (deviations * others).mean(1)
    found: NDArray[np.float64] = 2 * products - products.mean()
    return found


@cache
def critical_mean(n: int, level: float) -> float:
    """Distance of the mean from a bound, in units of √Σ(x − x̄)², that refutes it."""
    return critical_distance(lambda distance: mean_evidence(n, distance, 1.0), level)


@dataclass(frozen=True)
class Component(Rule):
    """The mean of pseudo-values, which may be negative where there is nothing."""

    values: tuple[float, ...]

    stated = "t-test on jackknifed variance components over seeds, valid after any number of looks"
    assumes = "seeds are independent draws; components that vary about normally between them"

    @property
    def n(self) -> int:
        """Seeds."""
        return len(self.values)

    @cached_property
    def _moments(self) -> Moments:
        return Moments.of(self.values)

    @cached_property
    def _look(self) -> tuple[Moments, float] | None:
        return latest_look(self.values)

    def _p(self, bound: float, sign: int) -> float:
        if self._look is None:
            return 1.0
        (look, share), whole = self._look, self._moments
        anytime = p_value(mean_evidence(self.n, sign * (whole.mean - bound), whole.squares)) / ANYTIME
        if sign * (whole.mean - bound) <= 0:
            return min(1.0, anytime)
        return min(1.0, anytime, look.tail(sign * (look.mean - bound)) / share)

    def estimate_at(self, level: float) -> Estimate:
        """The component with its interval."""
        mean = self._moments.mean
        if self._look is None:
            return Estimate(mean, -math.inf, math.inf, self.n, "mean", bounded=True)
        look, share = self._look
        half = critical_mean(self.n, ANYTIME * level) * math.sqrt(self._moments.squares)
        early = look.distance(share * level / 2)
        low, high = max(mean - half, look.mean - early), min(mean + half, look.mean + early)
        return Estimate(mean, min(low, mean), max(high, mean), self.n, "mean")

    def p_above(self, bound: float) -> float:
        """Evidence that it lies above."""
        return self._p(bound, 1)

    def p_below(self, bound: float) -> float:
        """Evidence that it lies below."""
        return self._p(bound, -1)

    def seeds_for(self, bound: float, level: float) -> Needed | None:
        """From the effect in standard deviations."""
        if self.n < FEWEST:
            return None
        spread = math.sqrt(self._moments.squares / (self.n - 1))
        return seeds_for_effect(abs(self._moments.mean - bound) / spread, self.n, level)

"""The center of numbers that lie symmetrically around it: two arms paired over seeds, valid after any number of looks.

If the arms do not differ, exchanging them changes nothing, so differences lie symmetrically around 0, whatever the
distribution in each arm. That is all that the evidence needs which counts at any time (`evidence.symmetry_evidence`).
Tests of the first 5, 10 and 20 pairs are made beside it (`rules.schedule`). Four pairs settle nothing.

The same rule decides on the numbers of one arm where a claim declares that they lie symmetrically around their center.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.rules.base import (
    ALPHA,
    ANYTIME,
    FEWEST,
    LOOKS,
    ON_RANKS,
    STAKES,
    Look,
    Moments,
    Needed,
    Rule,
    first_number,
    middle,
    p_value,
    planned_looks,
    scheduled_p,
    seeds_for_majority,
    share_evidence,
    symmetry_evidence,
)

LARGEST = 709.0
"""Of logarithms whose exponential is a number."""
MOST_MIDPOINTS = 60
"""Numbers of up to so many seeds have all their pairwise midpoints listed, between which evidence does not change."""


@dataclass(frozen=True)
class Paired(Rule):
    """Differences between these ends, on the scale that decides (with `logs`, log ratios), in the order of seeds."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    logs: bool = False
    resolution: float = 0.0
    """The smallest difference that could be measured: half of it proves nothing."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    average: bool = False
    """Whether the center is the mean: a median is meaningless for 0/1 outcomes."""
    alone: bool = False
    """Whether these are the numbers of one arm, not differences of two."""

    @property
    def stated(self) -> str:  # type: ignore[override]
        """On which scale."""
        if self.alone:
            what = "logarithms of one arm's numbers" if self.logs else "one arm's numbers"
        else:
            what = f"{'log ratios' if self.logs else 'differences'} paired over seeds"
        return f"t-tests of the first 5, 10 and 20 and a sign-flip test on {what}, valid after any number of looks"

    @property
    def assumes(self) -> str:  # type: ignore[override]
        """What it needs to be valid."""
        what = "numbers" if self.alone else "differences"
        return f"{what} lie symmetrically around their center; with 5 of them, that they are about normal"

    @property
    def n(self) -> int:
        """Planned pairs."""
        return len(self.low)

    @property
    def nothing(self) -> float:
        """The value of a comparison in which the arms do not differ."""
        return 1.0 if self.logs else 0.0

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The differences on the scale that decides; None where one has no finite number."""
        return self._low if self.low == self.high and np.isfinite(self._low).all() else None

    @cached_property
    def _low(self) -> NDArray[np.float64]:
        return np.array(self.low)

    @cached_property
    def _high(self) -> NDArray[np.float64]:
        return np.array(self.high)

    @cached_property
    def _moments(self) -> Moments | None:
        return None if self.numbers is None or not self.n else Moments.of(self.low, self.resolution)

    @cached_property
    def _center(self) -> float | None:
        if self.average and self.numbers is not None:
            return float(self.numbers.mean())
        return middle(self.low, self.high)

    @cached_property
    def _looks(self) -> list[Look]:
        """The planned looks; none where a pair is unknown, for nobody can say what it would have changed."""
        return planned_looks(self.low, self.resolution) if self.low == self.high else []

    def _p(self, bound: float, sign: int) -> float:
        """p of `the center does not lie above the bound` (sign 1) or below it (−1), on the deciding scale.

        The first seeds count only for a side on which the median of all of them lies.
        """
        if self.n < FEWEST:
            return 1.0
        found = [1.0, p_value(self._evidence(bound, sign)) / ANYTIME]
        if math.isfinite(bound) and sign * ((self._center or 0.0) - bound) > 0:
            found += [look.p(bound, sign) for look in self._looks]
        return min(found)

    def _evidence(self, bound: float, sign: int) -> float:
        """log E of `beyond the bound`; an unknown pair counts as far on the other side."""
        with np.errstate(invalid="ignore"):
            values = self._low - bound if sign > 0 else bound - self._high
        # a bound at the end of the scale (a ratio of 0) and a number there: nothing lies between them
        return symmetry_evidence(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf), self.resolution / 2)

    def p_above(self, bound: float) -> float:
        """Evidence that the center lies above."""
        return self._p(self._scaled(bound), 1)

    def p_below(self, bound: float) -> float:
        """Evidence that it lies below."""
        return self._p(self._scaled(bound), -1)

    def estimate_at(self, level: float) -> Estimate:
        """The median difference (or ratio), and every one that is not refuted."""
        center = self._center
        low, high = _ends(self, level)
        if center is not None:  # the first seeds alone may refute what all of them suggest
            low, high = min(low, center), max(high, center)
        value = None if center is None else self._back(center)
        ends = max(self._back(low), self.bounds[0]), min(self._back(high), self.bounds[1])
        return Estimate(
            value, *ends, self.n, "mean" if self.average else "median", bounded=math.isinf(low) and math.isinf(high)
        )

    def edge(self, sign: int, level: float) -> float:
        """The last bound below (sign 1) that is refuted, or above (−1, with its sign turned); −∞ where none is."""
        if self.n < FEWEST:
            return -math.inf
        found = max([self._edge_of_evidence(sign, level), *(look.edge(sign, level) for look in self._looks)])
        zero = sign * self._scaled(self.nothing)
        # evidence is not quite monotone in the bound: the interval says of `no difference` what the test says
        if not self.alone and math.isfinite(zero):
            refuted = 2 * self._p(sign * zero, sign) <= level
            found = max(found, zero) if refuted else min(found, math.nextafter(zero, -math.inf))
        return found

    def _edge_of_evidence(self, sign: int, level: float) -> float:
        """Bisection over the places where evidence changes: the midpoints of all pairs of numbers."""
        values = self._low if sign > 0 else -self._high
        finite = values[np.isfinite(values)]

        def refuted(bound: float) -> bool:
            return 2 * p_value(self._evidence(sign * bound, sign)) <= ANYTIME * level

        if not len(finite):
            return -math.inf
        least, most = float(finite.min()), float(finite.max())
        width = max(most - least, abs(least), self.resolution, 1e-300)
        if not refuted(least - width):  # with every number beyond the bound it is not enough
            return -math.inf
        if len(finite) <= MOST_MIDPOINTS:
            i, j = np.triu_indices(len(finite))
            places = np.unique(finite[i] / 2 + finite[j] / 2)
            inside = [least - width, *((places[1:] + places[:-1]) / 2).tolist(), most + width]
            low, high = 0, len(inside) - 1
            while high - low > 1:
                half = (low + high) // 2
                low, high = (half, high) if refuted(inside[half]) else (low, half)
            return float(places[low]) - self.resolution / 2
        below, above = least - width, most + width
        for _ in range(24):
            middle_of = (below + above) / 2
            below, above = (middle_of, above) if refuted(middle_of) else (below, middle_of)
        return below

    def seeds_for(self, bound: float, level: float) -> Needed | None:
        """From the effect in standard deviations, and how surely that is known."""
        at = self._scaled(bound)
        if self._moments is None or self.n < FEWEST or not math.isfinite(at):
            above, below = sum(v > at for v in self.low), sum(v < at for v in self.high)
            return seeds_for_majority(max(above, below), self.n, ANYTIME * (1 - ON_RANKS) * level)
        return seeds_for_effect(abs(self._moments.mean - at) / self._moments.spread, self.n, level)

    def _scaled(self, bound: float) -> float:
        if not self.logs:
            return bound
        return math.log(bound) if bound > 0 else -math.inf

    def _back(self, number: float) -> float:
        if not self.logs:
            return number
        return math.inf if number == math.inf else math.exp(min(number, LARGEST))


@lru_cache(maxsize=4096)
def _ends(rule: Paired, level: float) -> tuple[float, float]:
    """The interval on the deciding scale."""
    return rule.edge(1, level), -rule.edge(-1, level)


def seeds_for_effect(effect: float, n: int, level: float) -> Needed | None:
    """Seeds that settle an effect of so many standard deviations, within what n seeds know of it."""
    sure = 1.28 * math.sqrt(1 / n + effect * effect / (2 * n))
    fewest = _seeds_for_effect(effect + sure, n + 1, level)
    return None if fewest is None else Needed(fewest, _seeds_for_effect(effect - sure, n + 1, level))


def _seeds_for_effect(effect: float, start: int, level: float) -> int | None:
    from scipy.special import ndtr

    if effect <= 0:
        return None
    growth, share = _growth(round(effect, 2) or 0.01), float(ndtr(effect))

    def enough(n: int) -> bool:
        bets = float(np.logaddexp.reduce(n * growth)) - math.log(len(STAKES)) + math.log(ON_RANKS)
        toss = share_evidence(round(share * n), n, 0.5) + math.log(1 - ON_RANKS)
        anytime = p_value(float(np.logaddexp(bets, toss))) / ANYTIME
        return 2 * min(anytime, scheduled_p(n, effect)) <= level

    return first_number(enough, max(start, FEWEST))


@cache
def smallest_effect(n: int, level: float = ALPHA) -> float | None:
    """The smallest effect in standard deviations that n pairs settle if they go as expected; None: they settle none."""
    if n < FEWEST:
        return None
    looks = [smallest_effect(k, level) for k in LOOKS if k < n]  # the tests of the first so many count as well
    low, high = 0.0, 100.0
    for _ in range(24):
        half = (low + high) / 2
        low, high = (low, half) if _seeds_for_effect(half, n, level) == n else (half, high)
    return min([high, *(look for look in looks if look is not None)])


@cache
def _growth(effect: float) -> NDArray[np.float64]:
    """By how much log E grows per seed for each stake, of normal differences with this effect."""
    x = np.linspace(-6, 6, 481)
    weights = np.exp(-(x**2) / 2)
    values = x + effect
    stakes = np.outer(STAKES, np.abs(values) / math.sqrt(1 + effect**2))
    won = np.where(values > 0, stakes, -stakes) - np.logaddexp(stakes, -stakes) + math.log(2)
    found: NDArray[np.float64] = (won * weights).sum(1) / weights.sum()
    return found


@cache
def clearest_pairs(n: int) -> float:
    """The smallest one-sided p that n pairs can give, however clear they are."""
    clear = (1.0,) * n
    return Paired(clear, clear).p_above(0.0)

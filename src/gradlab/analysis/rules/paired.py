"""Two arms, paired over seeds: differences, or log ratios, by t-tests and a sign test, valid after any number of looks.

If the arms do not differ, exchanging them changes nothing, so differences lie symmetrically around 0, whatever the
distribution in each arm. After 3, 5 and 10 pairs an ordinary t-test of those is made (`rules.schedule`). At any time
evidence E counts, the mean of two bets: one on the sign of the differences (exact for any of them), one on their mean
over their spread (exact for normal ones, cautious for heavier tails). A difference without a finite number ends the
second bet. From 20 pairs on E is not more than either, so that one wrong assumption does no harm. Two pairs settle
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.rules.base import Needed, Rule, first_number
from gradlab.analysis.rules.evidence import critical_distance, mean_evidence, p_value, share_evidence
from gradlab.analysis.rules.median import middle, seeds_for_majority
from gradlab.analysis.rules.schedule import ANYTIME, FEWEST, Moments, latest_look, scheduled_p
from gradlab.analysis.sample import UNKNOWN, Ends

BOTH_FROM = 20
LARGEST = 709.0
"""Of logarithms whose exponential is a number."""


@dataclass(frozen=True)
class Paired(Rule):
    """Differences between these ends, on the scale that decides (with `logs`, log ratios)."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    logs: bool = False
    resolution: float = 0.0
    """The smallest difference that could be measured: half of it proves nothing."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    average: bool = False
    """Whether the center is the mean: of yes and no the median says nothing."""

    @property
    def stated(self) -> str:  # type: ignore[override]
        """On which scale."""
        what = "log ratios" if self.logs else "differences"
        return f"t-test and sign test on {what} paired over seeds, valid after any number of looks"

    assumes = "differences lie symmetrically around their center; with 3 to 5 pairs, that they are about normal"

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
        found = np.array(self.low)
        return found if self.low == self.high and np.isfinite(found).all() else None

    @cached_property
    def _moments(self) -> Moments | None:
        return None if self.numbers is None or not self.n else Moments.of(self.low, self.resolution)

    @cached_property
    def _center(self) -> float | None:
        if self.average and self.numbers is not None:
            return float(self.numbers.mean())
        return middle(self.low, self.high)

    @cached_property
    def _look(self) -> tuple[Moments, float] | None:
        """The planned look; none where a pair is unknown, for nobody can say what it would have changed."""
        return latest_look(self.low, self.resolution) if self.low == self.high else None

    def _p(self, bound: float, sign: int) -> float:
        """p of `the center does not lie above the bound` (sign 1) or below it (−1), on the deciding scale.

        The first seeds count only for a side on which the median of all of them lies.
        """
        if self.n < FEWEST:
            return 1.0
        anytime = p_value(self._evidence(bound, sign)) / ANYTIME
        if self._look is None or not math.isfinite(bound) or sign * ((self._center or 0.0) - bound) <= 0:
            return min(1.0, anytime)
        look, share = self._look
        return min(1.0, anytime, look.tail(self._beyond(look, bound, sign)) / share)

    def _beyond(self, look: Moments, bound: float, sign: int) -> float:
        """How far the mean lies beyond a bound, less what cannot be resolved."""
        distance = sign * (look.mean - bound)
        return math.copysign(max(abs(distance) - self.resolution / 2, 0.0), distance)

    def _evidence(self, bound: float, sign: int) -> float:
        """log E. A pair exactly on the bound is no toss: symmetry says nothing of it."""
        beyond = sum(v > bound for v in self.low) if sign > 0 else sum(v < bound for v in self.high)
        ties = sum(low == bound == high for low, high in zip(self.low, self.high, strict=True))
        signs = share_evidence(beyond, self.n - ties, 0.5)
        if self._moments is None or not math.isfinite(bound):
            return signs - math.log(2)
        distance = self._beyond(self._moments, bound, sign)
        return together(self.n, mean_evidence(self.n, distance, self._moments.squares), signs)

    def p_above(self, bound: float) -> float:
        """Evidence that the center lies above."""
        return self._p(self._scaled(bound), 1)

    def p_below(self, bound: float) -> float:
        """Evidence that it lies below."""
        return self._p(self._scaled(bound), -1)

    def estimate_at(self, level: float) -> Estimate:
        """The median difference (or ratio), and every one that is not refuted."""
        center = self._center
        low, high = self._edge(1, level), -self._edge(-1, level)
        if center is not None:  # the first seeds alone may refute what all of them suggest
            low, high = min(low, center), max(high, center)
        value = None if center is None else self._back(center)
        ends = max(self._back(low), self.bounds[0]), min(self._back(high), self.bounds[1])
        return Estimate(
            value, *ends, self.n, "mean" if self.average else "median", bounded=math.isinf(low) and math.isinf(high)
        )

    def _edge(self, sign: int, level: float) -> float:
        """The last bound below (sign 1) that is refuted, or above (−1, with its sign turned); −∞ where none is."""
        if self.n < FEWEST:
            return -math.inf
        found = self._edge_of_evidence(sign, ANYTIME * level)
        if self._look is None:
            return found
        look, share = self._look
        return max(found, sign * look.mean - look.distance(share * level / 2) - self.resolution / 2)

    def _edge_of_evidence(self, sign: int, level: float) -> float:
        ordered = sorted(self.low) if sign > 0 else sorted(-value for value in self.high)
        found = -math.inf
        for place, value in enumerate(ordered):
            reached = self._reach(sign, self.n - place, level)
            if place and reached < ordered[place - 1]:
                break
            found = min(value, reached)
        return found

    def _reach(self, sign: int, beyond: int, level: float) -> float:
        """Up to where a bound is refuted if so many differences lie beyond it."""
        if self._moments is None:
            signs = share_evidence(beyond, self.n, 0.5) - math.log(2)
            return math.inf if signs >= math.log(2 / level) else -math.inf
        distance = _critical(self.n, beyond, level) * math.sqrt(self._moments.squares)
        return sign * self._moments.mean - distance - self.resolution / 2

    def seeds_for(self, bound: float, level: float) -> Needed | None:
        """From the effect in standard deviations, and how surely that is known."""
        at = self._scaled(bound)
        if self._moments is None or self.n < FEWEST or not math.isfinite(at):
            above, below = sum(v > at for v in self.low), sum(v < at for v in self.high)
            return seeds_for_majority(max(above, below), self.n, ANYTIME * level / 2)
        spread = math.sqrt(self._moments.squares / (self.n - 1))
        return seeds_for_effect(abs(self._moments.mean - at) / spread, self.n, level)

    def _scaled(self, bound: float) -> float:
        if not self.logs:
            return bound
        return math.log(bound) if bound > 0 else -math.inf

    def _back(self, number: float) -> float:
        if not self.logs or number == math.inf:
            return number
        return math.exp(min(number, LARGEST))


def together(n: int, mean: float, signs: float) -> float:
    """The mean of both bets; from 20 pairs on not more than either."""
    both = float(np.logaddexp(mean, signs)) - math.log(2)
    return min(both, mean, signs) if n >= BOTH_FROM else both


@cache
def _critical(n: int, beyond: int, level: float) -> float:
    """Distance of the mean from a bound, in units of √Σ(x − x̄)², that refutes it if so many lie beyond it."""
    signs = share_evidence(beyond, n, 0.5)
    return critical_distance(lambda distance: together(n, mean_evidence(n, distance, 1.0), signs), level)


def seeds_for_effect(effect: float, n: int, level: float) -> Needed | None:
    """Seeds that settle an effect of so many standard deviations, within what n seeds know of it."""
    sure = 1.28 * math.sqrt(1 / n + effect * effect / (2 * n))
    fewest = _seeds_for_effect(effect + sure, n + 1, level)
    return None if fewest is None else Needed(fewest, _seeds_for_effect(effect - sure, n + 1, level))


def _seeds_for_effect(effect: float, start: int, level: float) -> int | None:
    from scipy.special import ndtr

    if effect <= 0:
        return None
    share = float(ndtr(effect))

    def enough(n: int) -> bool:
        signs = share_evidence(round(share * n), n, 0.5)
        anytime = p_value(together(n, mean_evidence(n, effect, n - 1.0), signs)) / ANYTIME
        return 2 * min(anytime, scheduled_p(n, effect)) <= level

    return first_number(enough, max(start, FEWEST))


def differences(pairs: Sequence[tuple[Ends, Ends]]) -> list[Ends]:
    """First minus second."""
    return [_apart(a, b, logs=False) for a, b in pairs]


def log_ratios(pairs: Sequence[tuple[Ends, Ends]]) -> list[Ends]:
    """log(first/second), of numbers that are not negative."""
    return [_apart(a, b, logs=True) for a, b in pairs]


def _apart(first: Ends, second: Ends, *, logs: bool) -> Ends:
    """Equal ones do not differ, also where both are 0 or infinite; what is unknown on one side is unknown."""
    a, b = first[0], second[0]
    if a != first[1] or b != second[1]:
        return UNKNOWN
    if a == b:
        return (0.0, 0.0)
    if logs:
        a, b = (math.log(value) if value > 0 else -math.inf for value in (a, b))
    return (a - b, a - b)

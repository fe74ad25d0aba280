"""Looks that are planned for everybody: Student's t-test after 3, 5 and 10 seeds, beside evidence at any other time.

Evidence that is valid after any number of looks has little power with few seeds. Most studies have 3, 5 or 10 seeds,
so part of α is spent on an ordinary t-test of just the first 3, 5 or 10 (the most that are there), whatever the study's
own number of seeds:

    p = min(p_t(first k)/w_k, 1/(0.4 E)),   w_3 = 0.15, w_5 = 0.2, w_10 = 0.25

is ever below α in at most (0.15 + 0.2 + 0.25 + 0.4) α of the cases, however often one looks (Bonferroni, Ville).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LOOKS = {3: 0.15, 5: 0.2, 10: 0.25}
"""Seeds -> the share of α that a t-test of the first so many may spend."""
ANYTIME = 1 - sum(LOOKS.values())
FEWEST = min(LOOKS)


@dataclass(frozen=True)
class Moments:
    """Of the first n values: their mean, and Σ(x − x̄)² with what rounding to the resolution adds."""

    n: int
    mean: float
    squares: float

    @staticmethod
    def of(values: Sequence[float], resolution: float = 0.0) -> Moments:
        """At least what floating-point numbers resolve: no spread is 0."""
        numbers = np.asarray(values, float)
        mean = float(numbers.mean())
        spread = float(((numbers - mean) ** 2).sum()) + len(numbers) * resolution**2 / 12
        least = len(numbers) * (float(np.finfo(float).eps) * max(abs(mean), 1e-300)) ** 2
        return Moments(len(numbers), mean, max(spread, least))

    def tail(self, distance: float) -> float:
        """One-sided p of Student's t-test, with the mean so far above the bound."""
        from scipy.special import stdtr

        return float(stdtr(self.n - 1, -distance * math.sqrt(self.n * (self.n - 1) / self.squares)))

    def distance(self, tail: float) -> float:
        """How far above a bound the mean has to lie for this one-sided p."""
        from scipy.special import stdtrit

        return -float(stdtrit(self.n - 1, tail)) * math.sqrt(self.squares / (self.n * (self.n - 1)))


def latest_look(values: Sequence[float], resolution: float = 0.0) -> tuple[Moments, float] | None:
    """The moments of the first 3, 5 or 10 values, the most that are there, with their share of α; all finite."""
    n = max((n for n in LOOKS if n <= len(values)), default=0)
    if not n or not all(map(math.isfinite, values[:n])):
        return None
    return Moments.of(values[:n], resolution), LOOKS[n]


def scheduled_p(n: int, effect: float) -> float:
    """One-sided p of a planned look at an effect of so many standard deviations; 1 where none is planned."""
    return Moments(n, effect, n - 1.0).tail(effect) / LOOKS[n] if n in LOOKS else 1.0

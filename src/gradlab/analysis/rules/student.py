"""Student's t on the mean, on the scale that suits the quantity: as it is, or its logarithm.

t = (x̄ − b) √n / s,   n − 1 degrees of freedom
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.estimate import Estimate, estimate_geometric_mean, estimate_mean
from gradlab.analysis.rules.base import MOST_SEEDS, POWER, Rule


@dataclass(frozen=True)
class Student(Rule):
    """Values (or paired differences) by seed, all finite; on logs all positive."""

    values: tuple[float, ...]
    logs: bool = False
    paired: bool = False

    @property
    def stated(self) -> str:  # type: ignore[override]
        """On which scale, and whether paired."""
        what = "differences paired over seeds" if self.paired else "values over seeds"
        if self.logs:
            what = "log ratios paired over seeds" if self.paired else "logarithms over seeds"
        return f"Student's t on {what}"

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """On the scale that decides."""
        return np.log(self.values) if self.logs else np.array(self.values)

    @cached_property
    def estimate(self) -> Estimate:
        """Mean, or geometric mean."""
        return estimate_geometric_mean(self.numbers) if self.logs else estimate_mean(self.numbers)

    def p_above(self, bound: float) -> float:
        """P(T ≥ t)."""
        return self._tail(-1, bound)

    def p_below(self, bound: float) -> float:
        """P(T ≤ t)."""
        return self._tail(1, bound)

    def _tail(self, sign: int, bound: float) -> float:
        from scipy.special import stdtr

        n, at = len(self.numbers), self._scaled(bound)
        if n < 2:
            return 1.0
        distance, spread = float(self.numbers.mean()) - at, float(np.std(self.numbers, ddof=1))
        if spread == 0 or not math.isfinite(distance):
            return 0.0 if sign * distance < 0 else 1.0
        return float(stdtr(n - 1, sign * distance * math.sqrt(n) / spread))

    def seeds_for(self, bound: float, level: float) -> int | None:
        """From the noncentral t distribution, at 80 % power."""
        if len(self.numbers) < 2:
            return None
        spread = float(np.std(self.numbers, ddof=1))
        effect = abs(float(self.numbers.mean()) - self._scaled(bound)) / spread if spread else math.inf
        if not effect > 0:
            return None
        low, high = 2, MOST_SEEDS
        if not _enough(effect, high, level):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if _enough(effect, middle, level) else (middle + 1, high)
        return low

    def _scaled(self, bound: float) -> float:
        if not self.logs:
            return bound
        return math.log(bound) if bound > 0 else -math.inf


def _enough(effect: float, n: int, level: float) -> bool:
    """Whether n seeds settle an effect of so many standard deviations in 80 % of the cases."""
    from scipy.special import nctdtr, stdtrit

    critical = float(stdtrit(n - 1, 1 - level / 2))
    shift = min(effect * math.sqrt(n), 1e3)
    return bool(shift > 2 * critical + 10 or 1 - float(nctdtr(n - 1, shift, critical)) >= POWER)

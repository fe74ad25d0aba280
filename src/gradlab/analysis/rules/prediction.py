"""Where a new seed would fall: a 95 % prediction interval.

From 39 seeds on it is distribution-free: of n + 1 exchangeable numbers the new one lies between the k-th smallest and
the k-th largest of the others with probability (n + 1 − 2k)/(n + 1). With fewer seeds no such interval reaches 95 %,
so the normal one is taken, x̄ ± t s √(1 + 1/n), on the metric's own scale, widened to all seeds that were seen and cut
to the metric's bounds. Networks that diverged, exact zeros of a log scale and unknown seeds extend it to the end where
they lie. Fewer than three seeds predict nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradlab.analysis.sample import Sample
from gradlab.spec.metric import Metric

LEVEL = 0.05
FEWEST = 3
FREE_FROM = 39
"""Seeds from which the smallest and largest alone hold 95 % of new ones."""


@dataclass(frozen=True)
class Prediction:
    """Between which numbers a new seed falls in 95 % of the cases."""

    low: float
    high: float
    n: int
    free: bool
    """Whether it needs no assumption about the distribution."""


def predict_seed(metric: Metric, sample: Sample) -> Prediction | None:
    """The interval for one more seed of this group; None of too few seeds."""
    ends = list(sample.ends.values())
    n = len(ends)
    if n < FEWEST:
        return None
    lows, highs = sorted(low for low, _ in ends), sorted(high for _, high in ends)
    if n >= FREE_FROM:
        rank = int((n + 1) * LEVEL / 2)
        return Prediction(_cut(lows[rank - 1], metric), _cut(highs[-rank], metric), n, free=True)
    values = [low for low, high in ends if low == high and math.isfinite(low)]
    near = _normal([value for value in values if value > 0 or not metric.on_logs], logs=metric.on_logs)
    low, high = min(lows[0], near[0]), max(highs[-1], near[1])
    return Prediction(_cut(low, metric), _cut(high, metric), n, free=False)


def _normal(values: Sequence[float], *, logs: bool) -> tuple[float, float]:
    """x̄ ± t s √(1 + 1/n), of logarithms where ratios matter; nothing narrower than the values themselves."""
    from scipy.special import stdtrit

    if len(values) < 2:
        return math.inf, -math.inf
    numbers = np.log(values) if logs else np.asarray(values)
    n, center = len(numbers), float(np.mean(numbers))
    half = float(stdtrit(n - 1, 1 - LEVEL / 2)) * float(np.std(numbers, ddof=1)) * math.sqrt(1 + 1 / n)
    low, high = center - half, center + half
    return (math.exp(min(low, 709.0)), math.exp(min(high, 709.0))) if logs else (low, high)


def _cut(value: float, metric: Metric) -> float:
    low, high = metric.bounds
    return min(max(value, low), high)

"""Where a new seed would fall: a 95 % prediction interval.

From 39 seeds on it is distribution-free: of n + 1 exchangeable numbers the new one lies between the k-th smallest and
the k-th largest of the others with probability (n + 1 − 2k)/(n + 1). With fewer seeds no such interval reaches 95 %,
so the normal one is taken, x̄ ± t s √(1 + 1/n), on the metric's own scale, widened to all seeds that were seen and cut
to the metric's bounds. Networks that diverged and exact zeros of a log scale extend it to the end where they lie.

A trained network may also end where none of the others did: it collapses, or escapes. With probability p (1 − p)ⁿ the
new seed does and none of n did, whatever the distribution: at most 10.5 % of the cases with 3 seeds, 6.7 % with 5,
3.5 % with 10. So with fewer than 10 seeds the interval is open toward the worse end; toward both ends where no end is
worse, and where all seeds gave the same number or hardly any gave a finite one, which tells nothing of their spread.

Fewer than three seeds with a number predict nothing, nor do so many without one that they could decide an end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.sample import Sample
from gradlab.spec.metric import Metric

LEVEL = 0.05
FEWEST = 3
ONE_MODE_FROM = 10
"""Seeds from which a network that ends unlike all of them is rare enough."""
FREE_FROM = 39
"""Seeds from which the smallest and largest alone hold 95 % of new ones."""
DECADE = 10.0
HALF = 0.5


@dataclass(frozen=True)
class Prediction:
    """Between which numbers a new seed falls in 95 % of the cases."""

    low: float
    high: float
    n: int
    free: bool
    """Whether it needs no assumption about the distribution."""


def predict_seed(metric: Metric, sample: Sample, *, trained: bool = True) -> Prediction | None:
    """The interval for one more seed of this group; None where too few seeds have a number of their own.

    `trained`: whether the number was taken after training; before it, no network has collapsed yet.
    """
    ends = sample.distinct
    n = len(ends)
    rank = max(int((n + 1) * LEVEL / 2), 1)
    if n - sample.unknown < FEWEST or sample.unknown >= rank:
        return None
    lows, highs = sorted(low for low, _ in ends), sorted(high for _, high in ends)
    if n >= FREE_FROM:
        return Prediction(_cut(lows[rank - 1], metric), _cut(highs[-rank], metric), n, free=True)
    values = [low for low, _ in ends if math.isfinite(low)]
    values = [value for value in values if value > 0 or not metric.on_logs]
    near = _normal(values, logs=metric.on_logs)
    low, high = min(lows[0], near[0]), max(highs[-1], near[1])
    if trained and n < ONE_MODE_FROM:
        either = metric.sign == 0 or low == high or len(values) < FEWEST
        low = -math.inf if either or metric.sign > 0 else low
        high = math.inf if either or metric.sign < 0 else high
    return Prediction(_cut(low, metric), _cut(high, metric), n, free=False)


def says_little(metric: Metric, low: float, high: float) -> bool:
    """Whether hardly any number lies outside: over a decade on logs, half of a bounded scale, or an open end."""
    low, high = _cut(low, metric), _cut(high, metric)
    if metric.on_logs:
        return low <= 0 or math.isinf(high) or high / low > DECADE
    least, most = metric.bounds
    return math.isinf(low) or math.isinf(high) or high - low >= HALF * (most - least)


def _normal(values: Sequence[float], *, logs: bool) -> tuple[float, float]:
    """x̄ ± t s √(1 + 1/n), of logarithms where ratios matter; nothing narrower than the values themselves."""
    from scipy.special import stdtrit

    if len(values) < 2:
        return math.inf, -math.inf
    numbers = np.log(values) if logs else np.asarray(values)
    unit = float(np.abs(numbers).max()) or 1.0  # squares of 1e-170 and of 1e170 are no numbers
    n, center = len(numbers), float(np.mean(numbers / unit))
    half = float(stdtrit(n - 1, 1 - LEVEL / 2)) * float(np.std(numbers / unit, ddof=1)) * math.sqrt(1 + 1 / n)
    low, high = (center - half) * unit, (center + half) * unit
    return (math.exp(min(low, 709.0)), math.exp(min(high, 709.0))) if logs else (low, high)


def _cut(value: float, metric: Metric) -> float:
    low, high = metric.bounds
    return min(max(value, low), high)


# Permutation test and bootstrap: shown beside the deciding rule, never deciding.
#
# With few seeds the percentile bootstrap covers too seldom (at n = 5 about 84 % where it claims 95 %), and a sign-flip
# permutation test of n pairs cannot fall below 2/2ⁿ.

DRAWS = 4000
EXACT_UP_TO = 12
MOST_RESAMPLED = 1000
"""Numbers beyond which nothing is resampled: it would take seconds, and decide nothing."""


def permutation_p(differences: NDArray[np.float64]) -> float | None:
    """Two-sided p of the mean difference under exchange of the arms within pairs; all sign flips for few pairs."""
    n = len(differences)
    if not 2 <= n <= MOST_RESAMPLED:
        return None
    if n <= EXACT_UP_TO:
        signs = np.array(list(product((1.0, -1.0), repeat=n)))
    else:
        signs = np.random.default_rng(0).choice((1.0, -1.0), (DRAWS, n))
        signs[0] = 1.0
    means, seen = np.abs(signs @ differences), abs(differences.sum())
    return float(np.mean(means >= seen * (1 - 1e-12)))


def bootstrap_interval(numbers: NDArray[np.float64]) -> tuple[float, float] | None:
    """Percentile bootstrap of the mean, 95 %."""
    if not 2 <= len(numbers) <= MOST_RESAMPLED:
        return None
    rows = np.random.default_rng(0).integers(0, len(numbers), (DRAWS, len(numbers)))
    low, high = np.quantile(numbers[rows].mean(1), (0.025, 0.975))
    return float(low), float(high)

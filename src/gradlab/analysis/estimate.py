"""A number over seeds with its 95 % interval: the one type, and the one place that makes it.

A mean has Student's t interval, x̄ ± t_{n−1} s/√n, on the quantity's scale; a share the exact binomial one
(Clopper-Pearson); a median the order statistics that hold it. What is not a plain number is counted beside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
What = Literal["mean", "geometric mean", "median", "share"]


@dataclass(frozen=True)
class Estimate:
    """A center with its interval; without one (a single seed) low and high are None, without a value all are."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    """Finite values."""
    what: What = "mean"
    """What the value and its interval are of."""
    mean: float | None = None
    median: float | None = None
    smallest: float | None = None
    largest: float | None = None
    zeros: int = 0
    """Exact zeros among them."""
    nan: int = 0
    inf: int = 0
    minus_inf: int = 0
    """Values that are not finite, left out of the mean."""
    missing: int = 0
    """Trials in which the number does not exist."""

    @property
    def geometric(self) -> bool:
        """Whether the value is a geometric mean."""
        return self.what == "geometric mean"

    @property
    def nonfinite(self) -> int:
        """NaN and infinite values together."""
        return self.nan + self.inf + self.minus_inf

    @property
    def count(self) -> int:
        """Of a share k/n: k."""
        return round((self.value or 0.0) * self.n)

    def excludes(self, bound: float) -> bool:
        """Whether the interval exists and the bound lies outside."""
        return self.low is not None and self.high is not None and not self.low <= bound <= self.high

    def to_json(self) -> dict[str, Any]:
        """All fields, under the names of the summary table."""
        return {
            "mean": self.mean,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "center": self.value,
            "geometric": self.geometric,
            "median": self.median,
            "smallest": self.smallest,
            "largest": self.largest,
            "zeros": self.zeros,
            "nan": self.nan,
            "inf": self.inf,
            "minus_inf": self.minus_inf,
            "missing": self.missing,
        }


def estimate_mean(values: NDArray[np.float64]) -> Estimate:
    """The mean of finite values with Student's t interval."""
    middle, half = float(values.mean()), half_width(values)
    if half is None:
        return Estimate(middle, None, None, len(values))
    return Estimate(middle, middle - half, middle + half, len(values))


def estimate_geometric_mean(logs: NDArray[np.float64]) -> Estimate:
    """The geometric mean of values whose logarithms these are."""
    found = estimate_mean(logs)
    value, low, high = (None if end is None else _exp(end) for end in (found.value, found.low, found.high))
    return Estimate(value, low, high, found.n, "geometric mean")


def half_width(values: NDArray[np.float64]) -> float | None:
    """Half the width of the t interval of the mean, t_{n−1} s/√n; None for a single value."""
    if len(values) < 2:
        return None
    from scipy.special import stdtrit

    quantile = float(stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def estimate_share(count: int, n: int) -> Estimate | None:
    """k/n with its exact interval: the probabilities under which so few, or so many, are not yet improbable."""
    if n == 0:
        return None
    from scipy.special import betaincinv

    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if count == 0 else float(betaincinv(count, n - count + 1, tail))
    high = 1.0 if count == n else float(betaincinv(count + 1, n - count, 1 - tail))
    return Estimate(count / n, low, high, n, "share")


def estimate_median(values: Sequence[float]) -> Estimate:
    """The median and the order statistics that hold it with at least 95 %; no interval below six seeds."""
    from scipy.special import bdtr

    ordered, n = sorted(values), len(values)
    middle = ordered[n // 2] if n % 2 else _between(ordered[n // 2 - 1], ordered[n // 2])
    rank = 0
    while rank < n // 2 and 2 * float(bdtr(rank, n, 0.5)) <= 1 - CONFIDENCE:
        rank += 1
    if rank == 0:
        return Estimate(middle, None, None, n, "median")
    return Estimate(middle, ordered[rank - 1], ordered[n - rank], n, "median")


def summarize(values: Iterable[float | int | None], *, logs: bool = False) -> Estimate:
    """Of one value per trial; with `logs`, the positive values have a geometric mean, zeros are counted."""
    everything = list(values)
    there = [float(value) for value in everything if value is not None]
    finite = np.array([value for value in there if math.isfinite(value)])
    counted: dict[str, Any] = {
        "nan": sum(math.isnan(value) for value in there),
        "inf": there.count(math.inf),
        "minus_inf": there.count(-math.inf),
        "missing": len(everything) - len(there),
    }
    if len(finite) == 0:
        return Estimate(None, None, None, 0, **counted)
    positive = finite[finite > 0]
    geometric = logs and bool((finite >= 0).all()) and 2 * len(positive) > len(finite)
    return replace(
        estimate_geometric_mean(np.log(positive)) if geometric else estimate_mean(finite),
        n=len(finite),
        mean=float(finite.mean()),
        median=float(np.median(finite)),
        smallest=float(finite.min()),
        largest=float(finite.max()),
        zeros=int(np.count_nonzero(finite == 0)),
        **counted,
    )


def _exp(number: float) -> float:
    return float(np.exp(min(number, 709.0)))


def _between(low: float, high: float) -> float:
    return low if math.isinf(low) or math.isinf(high) else (low + high) / 2

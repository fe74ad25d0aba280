"""Mean and 95 % interval over seeds, with everything that is not a plain number counted beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """Of one metric in one group. The interval is Student's t on the mean of the finite values."""

    mean: float | None
    low: float | None
    high: float | None
    n: int
    """Finite values."""
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
    def nonfinite(self) -> int:
        """NaN and infinite values together."""
        return self.nan + self.inf + self.minus_inf

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return dict(vars(self))


def summarise(values: Iterable[float | int | None]) -> Summary:
    """Summary of one value per trial."""
    everything = list(values)
    there = [float(value) for value in everything if value is not None]
    finite = np.array([value for value in there if math.isfinite(value)])
    counted = {
        "nan": sum(math.isnan(value) for value in there),
        "inf": there.count(math.inf),
        "minus_inf": there.count(-math.inf),
        "missing": len(everything) - len(there),
    }
    if len(finite) == 0:
        return Summary(None, None, None, 0, **counted)
    mean = float(finite.mean())
    half = t_half_width(finite)
    return Summary(
        mean,
        None if half is None else mean - half,
        None if half is None else mean + half,
        len(finite),
        median=float(np.median(finite)),
        smallest=float(finite.min()),
        largest=float(finite.max()),
        zeros=int(np.count_nonzero(finite == 0)),
        **counted,
    )


def t_half_width(values: Any) -> float | None:
    """Half the width of the t interval of the mean, t_{n−1} s/√n; None for a single value."""
    if len(values) < 2:
        return None
    from scipy.special import stdtrit

    quantile = float(stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))

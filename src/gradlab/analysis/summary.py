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
    """Of one metric in one group. The interval is Student's t on the center of the finite values."""

    mean: float | None
    low: float | None
    high: float | None
    n: int
    """Finite values."""
    center: float | None = None
    """The mean, or the geometric mean of a quantity over decades: what the interval is of."""
    geometric: bool = False
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


def summarize(values: Iterable[float | int | None], *, logs: bool = False) -> Summary:
    """Summary of one value per trial; with `logs`, the positive values have a geometric mean, zeros are counted."""
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
        return Summary(None, None, None, 0, **counted)
    positive = finite[finite > 0]
    geometric = logs and bool((finite >= 0).all()) and 2 * len(positive) > len(finite)
    scaled = np.log(positive) if geometric else finite
    middle, half = float(scaled.mean()), t_half_width(scaled)
    back = _exp if geometric else float
    return Summary(
        float(finite.mean()),
        None if half is None else back(middle - half),
        None if half is None else back(middle + half),
        len(finite),
        center=back(middle),
        geometric=geometric,
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


def _exp(number: float) -> float:
    return float(np.exp(min(number, 709.0)))

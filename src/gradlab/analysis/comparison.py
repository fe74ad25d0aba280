"""Two groups, paired over seeds: how many times larger, or how much more, with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import by_logs
from gradlab.analysis.summary import t_half_width
from gradlab.spec.place import At


@dataclass(frozen=True)
class Comparison:
    """b against a. `ratio` (geometric mean of b/a, interval on logs) where ratios are what matters, and most exist."""

    metric: str
    a: str
    b: str
    n: int
    """Pairs."""
    difference: float
    difference_low: float | None
    difference_high: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    zero_pairs: int
    """Pairs with an exact zero on one side: they have no ratio and are left out of it."""


def compare(measured: Measured, metric: str, a: str, b: str, at: At | None = None) -> Comparison | None:
    """Two groups of one study, paired over the seeds that both have; None if there is no such pair."""
    return paired(metric, a, b, measured.values(metric, a, at), measured.values(metric, b, at))


def paired(
    metric: str, a: str, b: str, left: Mapping[int, float | None], right: Mapping[int, float | None]
) -> Comparison | None:
    """Values by seed, b against a."""
    pairs = [
        (float(x), float(y))
        for seed, x in left.items()
        if x is not None and (y := right.get(seed)) is not None and math.isfinite(x) and math.isfinite(y)
    ]
    if not pairs:
        return None
    x, y = np.array(pairs).T
    difference, half = float(np.mean(y - x)), t_half_width(y - x)
    ratio = low = high = None
    positive = (x > 0) & (y > 0)
    if by_logs(metric) and (x >= 0).all() and (y >= 0).all() and 2 * np.count_nonzero(positive) > len(pairs):
        logs = np.log(y[positive]) - np.log(x[positive])
        center, spread = float(logs.mean()), t_half_width(logs)
        with np.errstate(over="ignore", under="ignore"):
            ratio = float(np.exp(center))
            if spread is not None:
                low, high = float(np.exp(center - spread)), float(np.exp(center + spread))
    return Comparison(
        metric,
        a,
        b,
        len(pairs),
        difference,
        None if half is None else difference - half,
        None if half is None else difference + half,
        ratio,
        low,
        high,
        int(np.count_nonzero(~positive)),
    )

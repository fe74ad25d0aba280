"""Two groups, paired over seeds: how many times larger, or how much more, with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.analysis.estimate import Estimate, estimate_geometric_mean, estimate_mean
from gradlab.analysis.measured import Measured
from gradlab.spec.metric import Metric
from gradlab.spec.place import At


@dataclass(frozen=True)
class Comparison:
    """b against a. `ratio` (geometric mean of b/a, interval on logs) where ratios are what matters, and most exist."""

    metric: str
    a: str
    b: str
    difference: Estimate
    ratio: Estimate | None
    zero_pairs: int = 0
    """Pairs with an exact zero on one side: they have no ratio and are left out of it."""

    @property
    def n(self) -> int:
        """Pairs."""
        return self.difference.n

    @property
    def identical(self) -> bool:
        """Whether every pair is equal to the last digit."""
        d = self.difference
        return d.value == 0 and d.low == d.high

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        d, r = self.difference, self.ratio
        return {
            "metric": self.metric,
            "a": self.a,
            "b": self.b,
            "n": self.n,
            "difference": d.value,
            "difference_low": d.low,
            "difference_high": d.high,
            "ratio": None if r is None else r.value,
            "ratio_low": None if r is None else r.low,
            "ratio_high": None if r is None else r.high,
            "zero_pairs": self.zero_pairs,
        }


def compare(measured: Measured, metric: str, a: str, b: str, at: At | None = None) -> Comparison | None:
    """Two groups of one study, paired over the seeds that both have; None if there is no such pair."""
    left, right = measured.values(metric, a, at), measured.values(metric, b, at)
    return paired(measured.metric(metric), a, b, left, right)


def paired(
    metric: Metric, a: str, b: str, left: Mapping[int, float | None], right: Mapping[int, float | None]
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
    positive = (x > 0) & (y > 0)
    ratio = None
    if metric.on_logs and (x >= 0).all() and (y >= 0).all() and 2 * np.count_nonzero(positive) > len(pairs):
        ratio = estimate_geometric_mean(np.log(y[positive]) - np.log(x[positive]))
    return Comparison(metric.name, a, b, estimate_mean(y - x), ratio, int(np.count_nonzero(~positive)))

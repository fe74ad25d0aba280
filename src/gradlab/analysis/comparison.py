"""Two groups, paired over seeds: how many times larger, or how much more, with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA, Paired, two_arms
from gradlab.analysis.sample import Sample
from gradlab.spec.metric import Metric
from gradlab.spec.place import At


@dataclass(frozen=True)
class Comparison:
    """b against a: the median difference, and the median ratio where ratios are what matters."""

    metric: str
    a: str
    b: str
    difference: Estimate
    ratio: Estimate | None
    zero_pairs: int = 0
    """Pairs with an exact zero on one side only: their ratio is 0 or infinite."""
    unknown: int = 0
    """Pairs in which a side failed, is missing or has no number: they count against every conclusion."""
    identical: bool = False
    """Whether every pair is equal to the last digit."""

    @property
    def n(self) -> int:
        """Planned pairs."""
        return self.difference.n

    @property
    def settled(self) -> bool:
        """Whether the arms are shown to differ."""
        return self.difference.excludes(0) if self.ratio is None else self.ratio.excludes(1)

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
            "unknown": self.unknown,
        }


def compare(
    measured: Measured, metric: str, a: str, b: str, at: At | None = None, *, level: float = ALPHA
) -> Comparison | None:
    """Two groups of one study, paired over the planned seeds; None if there is no number in either."""
    left, right = measured.sample(metric, a, at), measured.sample(metric, b, at)
    found = measured.metric(metric)
    return compare_samples(found, (a, b), left, right, level=level, resolution=measured.resolution(metric))


def compare_samples(
    metric: Metric,
    names: tuple[str, str],
    left: Sample,
    right: Sample,
    *,
    level: float = ALPHA,
    resolution: float = 0.0,
) -> Comparison | None:
    """Every seed that is planned on both sides, right against left."""
    rule = two_arms(metric, right, left, resolution=resolution)
    if rule is None or not (left.known and right.known):
        return None
    plain = two_arms(metric, right, left, resolution=resolution, logs=False) if rule.logs else rule
    assert isinstance(plain, Paired)
    shared = [seed for seed in left.ends if seed in right.ends]
    zeros = sum((left.ends[seed] == (0, 0)) != (right.ends[seed] == (0, 0)) for seed in shared)
    return Comparison(
        metric.name,
        *names,
        plain.estimate_at(level),
        rule.estimate_at(level) if rule.logs else None,
        zeros,
        sum(low != high for low, high in zip(plain.low, plain.high, strict=True)),
        all(low == high == 0 for low, high in zip(plain.low, plain.high, strict=True)),
    )

"""The deciding rules, and which one decides: fixed by the metric and the design, never by what was seen.

happened or not (collapsed, diverged), one arm     binomial test on the share
any other number of one arm                        sign test on the median
two arms, paired over seeds                        t-test and sign test on differences, or log ratios
"""

from __future__ import annotations

import math
from dataclasses import replace

from gradlab.analysis.rules.base import ALPHA, Needed, Rule
from gradlab.analysis.rules.median import Median
from gradlab.analysis.rules.paired import Paired, differences, log_ratios
from gradlab.analysis.rules.share import Proportion
from gradlab.analysis.sample import Sample, paired_seeds
from gradlab.spec.metric import Metric

__all__ = ["ALPHA", "Median", "Needed", "Paired", "Proportion", "Rule", "one_arm", "two_arms"]

FLOAT = 1.2e-7
"""How finely single precision resolves a number, as a fraction of it."""


def one_arm(metric: Metric, sample: Sample) -> Rule | None:
    """The rule for the number of one arm against a bound; None of no seeds."""
    if not sample.ends:
        return None
    return Proportion.of(sample) if metric.kind == "flag" else Median.of(sample, metric.bounds)


def two_arms(
    metric: Metric, first: Sample, second: Sample, *, logs: bool | None = None, resolution: float = 0.0
) -> Paired | None:
    """The rule for first over second (metrics on logs, or where `logs` says so), or for first minus second.

    A quantity that takes negative values has no ratio. `resolution`: the smallest step of the metric.
    """
    pairs = paired_seeds(first, second)
    if not pairs:
        return None
    ratios = metric.on_logs if logs is None else logs
    if ratios and all(not -math.inf < low < 0 for pair in pairs for low, _ in pair):
        return _paired(log_ratios(pairs), logs=True, resolution=FLOAT, bounds=(0.0, math.inf))
    low, high = metric.bounds
    found = _paired(differences(pairs), logs=False, resolution=resolution, bounds=(low - high, high - low))
    return replace(found, average=True) if metric.kind == "flag" else found


def _paired(found: list[tuple[float, float]], *, logs: bool, resolution: float, bounds: tuple[float, float]) -> Paired:
    low, high = zip(*found, strict=True)
    return Paired(low, high, logs, resolution, bounds)

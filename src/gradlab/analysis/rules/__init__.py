"""The deciding rules, and which one decides: fixed by the metric and the design, never by what was seen.

happened or not (collapsed, diverged), one arm     binomial test on the share
any other number of one arm                        sign test on the median
the same, declared to be symmetric                 t-tests of the first seeds and sign-flip evidence, on the number
two arms, paired over seeds                        the same, on differences or log ratios
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gradlab.analysis.rules.base import ALPHA, Needed, Rule
from gradlab.analysis.rules.paired import Paired
from gradlab.analysis.rules.single import Median, Proportion
from gradlab.analysis.sample import Ends, Sample, apart, cut, mean_ends, paired_seeds
from gradlab.spec.metric import Metric

__all__ = ["ALPHA", "Median", "Needed", "Paired", "Proportion", "Rule", "one_arm", "pooled_arms", "two_arms"]

FLOAT = 1.2e-7
"""How finely single precision resolves a number, as a fraction of it."""


def one_arm(metric: Metric, sample: Sample, *, symmetric: bool = False, resolution: float = 0.0) -> Rule | None:
    """The rule for the number of one arm against a bound; None of no seeds.

    `symmetric`: whether its numbers (on the metric's scale) are declared to lie symmetrically around their center.
    """
    if not sample.ends:
        return None
    if metric.kind == "flag":
        return Proportion.of(sample)
    if not symmetric:
        return Median.of(sample, metric.bounds)
    ends = sample.distinct
    logs = metric.on_logs and all(low >= 0 or math.isinf(low) for low, _ in ends)
    if logs:
        ends = [apart(end, (1.0, 1.0), logs=True) for end in ends]
    found = _paired(ends, logs=logs, resolution=FLOAT if logs else resolution, bounds=metric.bounds)
    return replace(found, alone=True)


def two_arms(
    metric: Metric, first: Sample, second: Sample, *, logs: bool | None = None, resolution: float = 0.0
) -> Paired | None:
    """The rule for first over second (metrics on logs, or where `logs` says so), or for first minus second.

    A quantity that takes negative values has no ratio. `resolution`: the smallest step of the metric.
    """
    return pooled_arms(metric, [(first, second)], logs=logs, resolution=resolution)


def pooled_arms(
    metric: Metric, cells: Sequence[tuple[Sample, Sample]], *, logs: bool | None = None, resolution: float = 0.0
) -> Paired | None:
    """The same for the mean over several cells: differences (log ratios) are taken cell by cell, then averaged.

    So a cell in which both sides diverged is unknown and cannot hide behind the others.
    """
    pairs = paired_seeds(cells)
    if not all(pairs):
        return None
    ratios = metric.on_logs if logs is None else logs
    ratios = ratios and all(not -math.inf < low < 0 for cell in pairs for pair in cell for low, _ in pair)
    if ratios:
        by_cell = [[apart(a, b, logs=True) for a, b in cell] for cell in pairs]
        resolution, bounds = FLOAT, (0.0, math.inf)
    else:
        low, high = metric.bounds
        bounds = (low - high, high - low)
        by_cell = [[_difference(a, b, metric if len(cells) > 1 else None) for a, b in cell] for cell in pairs]
    found = _paired(
        [mean_ends(ends) for ends in zip(*by_cell, strict=True)], logs=ratios, resolution=resolution, bounds=bounds
    )
    return replace(found, average=True) if metric.kind == "flag" and not ratios else found


def _difference(first: Ends, second: Ends, metric: Metric | None) -> Ends:
    """First minus second; with a metric, between its bounds: a mean of several cells needs numbers, and a network
    that diverged is as bad as its metric can be.
    """
    ends = apart(first, second, logs=False)
    if metric is None:
        return ends
    low, high = metric.bounds
    if ends[0] != ends[1]:
        return cut(ends, (low - high, high - low))
    return apart(cut(first, metric.bounds), cut(second, metric.bounds), logs=False)


def _paired(found: Sequence[Ends], *, logs: bool, resolution: float, bounds: tuple[float, float]) -> Paired:
    low, high = zip(*found, strict=True)
    return Paired(low, high, logs, resolution, bounds)

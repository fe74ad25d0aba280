"""The deciding rules, and which one decides: one per kind of quantity, chosen by what it is, not by its result.

a share (collapsed, diverged)            exact binomial
a mixture, exact zeros, divergence       the median, by the exact sign test; smaller or larger than any bound
a quantity over decades                  Student's t on logarithms (geometric mean)
anything else                            Student's t (mean)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gradlab.analysis.rules.base import ALPHA, Rule
from gradlab.analysis.rules.binomial import Median, Proportion
from gradlab.analysis.rules.student import Student
from gradlab.spec.metric import Metric

__all__ = ["ALPHA", "Median", "Proportion", "Rule", "Student", "one_arm", "two_arms"]

TINY, HUGE = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)


def one_arm(metric: Metric, values: Sequence[float], mixed: bool = False) -> Rule | None:
    """The rule for values by seed against a bound; NaN is diverged: beyond any bound on the bad side."""
    if not values:
        return None
    if metric.kind == "flag":
        return Proportion(sum(value > 0 for value in values), len(values))
    kept = tuple(known for value in values if (known := _known(metric, value)) is not None)
    if not kept:
        return None
    if mixed or not all(map(math.isfinite, kept)):
        return Median(kept)
    if not metric.on_logs or min(kept) < 0:
        return Student(kept)
    return Median(kept) if min(kept) == 0 else Student(kept, logs=True)


def two_arms(
    metric: Metric, pairs: Sequence[tuple[float, float]], mixed: bool = False, *, size: bool = False
) -> Rule | None:
    """The rule for first over second (on logs) or first minus second, by seed; 1 or 0 is no difference.

    A pair with an exact zero has an order but no ratio: where the `size` of a ratio is asked for, pairs without a
    zero decide, as long as they are the most.
    """
    if not pairs:
        return None
    ends = [(_known(metric, a), _known(metric, b)) for a, b in pairs]
    kept = [(a, b) for a, b in ends if a is not None and b is not None]
    if not kept:
        return None
    flat = [value for pair in kept for value in pair]
    ratios = (size or metric.on_logs) and min(flat) >= 0
    if size and ratios and 2 * len(above := [pair for pair in kept if min(pair) > 0]) > len(kept):
        kept, flat = above, [value for pair in above for value in pair]
    if metric.kind == "flag" or mixed or not all(map(math.isfinite, flat)) or (ratios and min(flat) == 0):
        return Median(tuple(_apart(a, b, ratios) for a, b in kept), paired=True)
    if ratios:
        return Student(tuple(_quotient(a, b) for a, b in kept), logs=True, paired=True)
    return Student(tuple(a - b for a, b in kept), paired=True)


def none_apart(metric: Metric, pairs: Sequence[tuple[float, float]], *, size: bool = False) -> float:
    """The value of a comparison in which the arms do not differ: ratio 1, or difference 0."""
    return 1.0 if (size or metric.on_logs) and all(not value < 0 for pair in pairs for value in pair) else 0.0


def _apart(a: float, b: float, ratios: bool) -> float:
    """Ratio or difference where zeros and infinities occur; equal ones do not differ."""
    if a == b:
        return 1.0 if ratios else 0.0
    if not ratios:
        return a - b
    return math.inf if b == 0 or math.isinf(a) else 0.0 if math.isinf(b) else _quotient(a, b)


def _quotient(a: float, b: float) -> float:
    """a/b, kept inside what a number can hold."""
    with np.errstate(all="ignore"):
        return float(np.clip(np.exp(np.log(a) - np.log(b)), TINY, HUGE)) if a > 0 else 0.0


def _known(metric: Metric, value: float) -> float | None:
    """A value; for NaN the worst there is, or None where nobody knows what would be worse."""
    if not math.isnan(value):
        return value
    return metric.worst

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

from gradlab.analysis.rules.base import ALPHA, Estimate, Rule
from gradlab.analysis.rules.binomial import Median, Proportion
from gradlab.analysis.rules.student import Student

__all__ = ["ALPHA", "Estimate", "Median", "Proportion", "Rule", "Student", "one_arm", "two_arms"]

SHARES = ("collapsed", "diverged")
HIGHER = (
    "accuracy", "acc", "score", "f1", "auc", "bleu", "rouge", "reward", "return", "precision", "recall", "r2", "iou",
    "dice", "map", "psnr", "ssim", "top1", "top5", "success_rate",
)  # fmt: skip
"""Ends of metrics of which more is better."""
LOWER = (
    "loss", "error", "perplexity", "seconds", "seconds_per_epoch", "to_target", "mse", "rmse", "mae", "nll", "wer",
    "cer", "fid", "regret",
)  # fmt: skip
"""Ends of metrics of which less is better."""
SIZES = ("grad", "bias_grad", "delta", "activation", "update_ratio", "weight", "flops")
"""Beginnings of metrics that have a size and no better: one that is not finite is larger than any."""
SKEWED = (*LOWER, "flops", "grad_l2", "grad_rms", "grad_mean_abs", "delta_l2", "delta_rms", "update_ratio")
"""Ends of metrics over decades, which are judged by their logarithms; others are judged as they are."""
TINY, HUGE = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)


def by_logs(metric: str) -> bool:
    """Whether a metric is one whose ratios matter: losses, gradients, times. A quotient always is."""
    return "/" in metric or metric.endswith(SKEWED) or metric.startswith("activation_std")


def direction(metric: str) -> int:
    """+1 if more of a metric is better, −1 if less, 0 if its name does not tell."""
    return 1 if metric.endswith(HIGHER) else -1 if metric.endswith(LOWER) else 0


def one_arm(metric: str, values: Sequence[float], mixed: bool = False) -> Rule | None:
    """The rule for values by seed against a bound; NaN is diverged: beyond any bound on the bad side."""
    if not values:
        return None
    if metric in SHARES:
        return Proportion(sum(value > 0 for value in values), len(values))
    kept = tuple(known for value in values if (known := _known(metric, value)) is not None)
    if not kept:
        return None
    if mixed or not all(map(math.isfinite, kept)):
        return Median(kept)
    if not by_logs(metric) or min(kept) < 0:
        return Student(kept)
    return Median(kept) if min(kept) == 0 else Student(kept, logs=True)


def two_arms(
    metric: str, pairs: Sequence[tuple[float, float]], mixed: bool = False, *, size: bool = False
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
    ratios = (size or by_logs(metric)) and min(flat) >= 0
    if size and ratios and 2 * len(above := [pair for pair in kept if min(pair) > 0]) > len(kept):
        kept, flat = above, [value for pair in above for value in pair]
    if metric in SHARES or mixed or not all(map(math.isfinite, flat)) or (ratios and min(flat) == 0):
        return Median(tuple(_apart(a, b, ratios) for a, b in kept), paired=True)
    if ratios:
        return Student(tuple(_quotient(a, b) for a, b in kept), logs=True, paired=True)
    return Student(tuple(a - b for a, b in kept), paired=True)


def none_apart(metric: str, pairs: Sequence[tuple[float, float]], *, size: bool = False) -> float:
    """The value of a comparison in which the arms do not differ: ratio 1, or difference 0."""
    return 1.0 if (size or by_logs(metric)) and all(not value < 0 for pair in pairs for value in pair) else 0.0


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


def _known(metric: str, value: float) -> float | None:
    """A value; for NaN the worst there is, or None where a metric's name does not tell what would be worse."""
    if not math.isnan(value):
        return value
    if metric.startswith(SIZES) or (metric not in SHARES and direction(metric) < 0):
        return math.inf
    return -math.inf if direction(metric) > 0 else None

"""Groups from best to worst, and what their seeds settle about the best."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradlab.analysis.comparison import compare
from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA


@dataclass(frozen=True)
class Best:
    """The group with the best median.

    It was picked among all groups, so its interval and its comparisons are at the level of all of them together
    (Bonferroni).
    """

    group: str
    estimate: Estimate
    ties: tuple[str, ...]
    """Groups that it is not shown to be better than."""
    others: int


def ranked(measured: Measured, metric: str) -> list[str]:
    """Groups with a number, best median first; diverged networks count as worst. None where nothing is better."""
    sign = measured.metric(metric).sign
    if sign == 0:
        return []
    centers = {name: measured.summary(metric, name) for name in measured.group_names}
    there = [name for name, found in centers.items() if found.value is not None and (found.n or found.diverged)]
    return sorted(there, key=lambda name: -sign * float(centers[name].value or 0.0))


def best_of(measured: Measured, metric: str) -> Best | None:
    """The best group with those that its seeds do not settle it is better than."""
    order = ranked(measured, metric)
    if not order or not math.isfinite(measured.summary(metric, order[0]).value or 0.0):
        return None
    first, sign = order[0], measured.metric(metric).sign
    pairs = max(len(order) * (len(order) - 1) // 2, 1)
    ties = []
    for other in order[1:]:
        found = compare(measured, metric, other, first, level=ALPHA / pairs)
        better = found is not None and found.settled and sign * (found.difference.value or 0.0) > 0
        if not better:
            ties.append(other)
    estimate = measured.summary(metric, first, level=ALPHA / len(order))
    return Best(first, estimate, tuple(ties), len(order) - 1)

"""Groups from best to worst."""

from __future__ import annotations

from gradlab.analysis.comparison import compare
from gradlab.analysis.measured import Measured


def ranked(measured: Measured, metric: str) -> list[str]:
    """Groups with a number, best median first: a mean would rank a mixture by its luckiest seeds.

    None where the metric does not say what is better.
    """
    if measured.metric(metric).better == "none":
        return []
    medians = {name: measured.summary(metric, name).median for name in measured.group_names}
    there = [name for name, median in medians.items() if median is not None]
    return sorted(there, key=lambda name: -measured.metric(metric).sign * float(medians[name] or 0.0))


def best_and_ties(measured: Measured, metric: str) -> tuple[str, list[str]] | None:
    """The best group, and those that its seeds do not settle it is better than."""
    order = ranked(measured, metric)
    if not order:
        return None
    first, ties = order[0], []
    for other in order[1:]:
        c = compare(measured, metric, other, first)
        if c is None or not c.difference.excludes(0):
            ties.append(other)
    return first, ties

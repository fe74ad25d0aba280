"""One paragraph per study, written from the numbers: what was measured, how sure, against what was published."""

from __future__ import annotations

import math

from gradlab.analysis.answer import headline_of
from gradlab.analysis.axis import axis_view
from gradlab.analysis.collapse import Collapse, collapse_of
from gradlab.analysis.convergence import convergence_of
from gradlab.analysis.effects import effects_of
from gradlab.analysis.formatting import interval, number, percent_range
from gradlab.analysis.measured import Measured
from gradlab.analysis.pareto import frontier, offers
from gradlab.analysis.published import beside
from gradlab.analysis.ranking import best_and_ties, ranked

MOST = 4
"""Groups that a sentence names before it says how many more there are."""


def findings(measured: Measured) -> str:
    """The paragraph; empty where the study has fewer than two groups with a number."""
    headline = headline_of(measured)
    if headline is None or headline.at.layer is not None or len(measured.group_names) < 2:
        return ""
    metric = headline.metric
    sentences = [
        _best(measured, metric),
        _along(measured, metric),
        _collapses(measured),
        _factors(measured, metric),
        _speed(measured),
        _price(measured),
        _published(measured),
    ]
    return " ".join(filter(None, sentences))


def _best(measured: Measured, metric: str) -> str:
    found = best_and_ties(measured, metric)
    if found is None:
        return ""
    first, ties = found
    others = len(ranked(measured, metric)) - 1
    words = f"The best {metric.replace('_', ' ')} is {first}'s: {interval(measured.summary(metric, first))}"
    if not others:
        return words + "."
    if measured.seeds_done < 2:
        return words + " (one seed: nothing is settled)."
    if not ties:
        whom = "the other" if others == 1 else f"each of the {others} others"
        return f"{words}, better than {whom} (95 % paired intervals)."
    return f"{words}; not settled against {_listed(ties)}."


def _along(measured: Measured, metric: str) -> str:
    """From one end of the axis to the other, series by series."""
    view = axis_view(measured)
    if view is None or not view.numeric or len(view.values) < 3:
        return ""
    pieces = []
    for series in view.series[:MOST]:
        ends = [(value, measured.summary(metric, group).median) for value, group in series.points]
        known = [(value, median) for value, median in ends if median is not None]
        if len(known) >= 2:
            path = f"{number(known[0][1], 3)} → {number(known[-1][1], 3)}"
            top = max(known, key=lambda pair: measured.metric(metric).sign * pair[1])
            best = "" if top in (known[0], known[-1]) else f" (best {number(top[1], 3)} at {number(top[0])})"
            pieces.append(f"{series.label or 'all'} {path}{best}")
    if not pieces:
        return ""
    more = f"; and {len(view.series) - MOST} series more" if len(view.series) > MOST else ""
    span = f"{view.name} {number(view.values[0])} to {number(view.values[-1])}"
    return f"Medians from {span}: {'; '.join(pieces)}{more}."


def _collapses(measured: Measured) -> str:
    found = [c for name in measured.group_names if (c := collapse_of(measured, name)) is not None]
    fallen = [c for c in found if c.share.count]
    if not found or measured.plan.groups[0].classes is None:
        return ""
    if not fallen:
        return "No network stayed at chance."
    return f"Ended at chance: {'; '.join(map(collapse_words, fallen[:MOST]))}{_more(len(fallen))}."


def collapse_words(c: Collapse) -> str:
    """`plain 7 of 10 (35–93 %), median .11, the others escaped after epochs 12, 30, 31`."""
    words = f"{c.group} {c.share.count} of {c.share.n} ({percent_range(c.share)})"
    words += f", median {number(c.median, 3)}"
    if c.mixed and c.escapes:
        who, when = ("other", "epoch") if len(c.escapes) == 1 else ("others", "epochs")
        more = ", …" if len(c.escapes) > 6 else ""
        words += f", the {who} escaped after {when} {', '.join(map(str, c.escapes[:6]))}{more}"
    return words


def _factors(measured: Measured, metric: str) -> str:
    found = effects_of(measured, metric)
    if found is None:
        return ""
    mains = [f"{main.path.split('.')[-1]} {100 * main.share:.0f} %" for main in found.mains]
    pairs = [
        f"{' × '.join(path.split('.')[-1] for path in pair.paths)} {100 * pair.share:.0f} %"
        for pair in found.interactions
        if pair.share >= 0.05
    ]
    largest = found.mains[0]
    name, sure = largest.path.split(".")[-1], ""
    if largest.range_low is not None and largest.range_high is not None:
        sure = f" [{found.size(largest.range_low)}, {found.size(largest.range_high)}]"
    what = "geometric mean" if found.logs else "mean"
    joint = f"; together {', '.join(pairs)}" if pairs else ""
    return (
        f"Of the variance between cells{' (of logs)' if found.logs else ''}, {', '.join(mains)} are due to one factor "
        f"alone{joint}. The largest, {name}, moves the {what} by {found.size(largest.range)}{sure}"
        + (f" ({found.at_chance} diverged networks counted at chance)." if found.at_chance else ".")
    )


def _speed(measured: Measured) -> str:
    target = measured.study.target
    found = [c for name in measured.group_names if (c := convergence_of(measured, name)) is not None]
    if target is None or not found:
        return ""
    pieces = []
    for c in found[:MOST]:
        if math.isinf(c.epochs):
            pieces.append(f"{c.group} in {c.reached.count} of {c.reached.n} seeds")
        else:
            pieces.append(f"{c.group} after {number(c.epochs, 3)} epochs, {number(c.seconds, 2)} s")
    goal = f"{target.metric.replace('_', ' ')} {number(target.value)}"
    return f"Reached {goal} (median): {'; '.join(pieces)}{_more(len(found))}."


def _price(measured: Measured) -> str:
    value = next((m for m in ("test_accuracy", "validation_accuracy") if m in measured.metrics), None)
    if value is None or len(measured.group_names) < 6:
        return ""
    found = offers(measured, value, "seconds_per_epoch")
    best = frontier(found)
    if len(best) in (0, len(found)):
        return ""
    names = _listed([offer.group for offer in best])
    return f"Worth their price (accuracy against seconds per epoch) are {len(best)} of {len(found)} groups: {names}."


def _published(measured: Measured) -> str:
    rows = [row for row in beside(measured) if row.inside_seeds is not None]
    if not rows:
        return ""
    inside = sum(bool(row.inside_seeds) for row in rows)
    return f"Of {len(rows)} published numbers {inside} lie inside the range of our seeds."


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST]) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")


def _more(count: int) -> str:
    return f"; and {count - MOST} more" if count > MOST else ""

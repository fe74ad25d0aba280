"""One paragraph per study, written from the numbers: what was measured, how sure, against what was published."""

from __future__ import annotations

import math
from functools import partial

from gradlab.analysis.answer import headline_of
from gradlab.analysis.axis import axis_view
from gradlab.analysis.claims.numbers import compare_numbers
from gradlab.analysis.collapse import Collapse, collapse_of
from gradlab.analysis.convergence import convergence_of
from gradlab.analysis.effects import Effects, effects_of, is_full_grid
from gradlab.analysis.estimate import Estimate
from gradlab.analysis.fit import fit_measures
from gradlab.analysis.formatting import interval, number, percent_range
from gradlab.analysis.measured import Measured
from gradlab.analysis.pareto import frontier, offers
from gradlab.analysis.ranking import Best, best_of
from gradlab.analysis.theory import theory_sentence
from gradlab.spec.naming import Names
from gradlab.spec.numerals import counted, written
from gradlab.spec.paths import label
from gradlab.spec.phrasing import capital, join, name_setting, say_inside, say_level

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
        theory_sentence(measured),
    ]
    return " ".join(filter(None, sentences))


def _best(measured: Measured, metric: str) -> str:
    found = best_of(measured, metric)
    if found is None:
        return ""
    name = measured.metric(metric).label
    where = say_inside(measured.names, found.group)
    words = f"The best {name} is reached {where}: {interval(found.estimate)}{_sampled(found)}"
    if not found.others:
        return words + "."
    if measured.seeds_done < 2:
        return words + " (one seed: nothing is settled)."
    if not found.ties:
        whom = "the other" if found.others == 1 else f"each of the {found.others} others"
        return f"{words}, better than {whom} (paired, all comparisons together at 95 %)."
    return f"{words}; not settled against {_listed([_called(measured, name) for name in found.ties])}."


def _sampled(found: Best) -> str:
    """What the finite test set adds to the uncertainty of an accuracy."""
    error = found.estimate.sampling_error
    return "" if error is None else f" (± {number(error, 2)} from the finite test set)"


def _along(measured: Measured, metric: str) -> str:
    """From one end of the axis to the other, series by series."""
    view = axis_view(measured)
    if view is None or not view.numeric or len(view.values) < 3:
        return ""
    pieces = []
    for series in view.series[:MOST]:
        ends = [(value, measured.summary(metric, group).value) for value, group in series.points]
        known = [(value, median) for value, median in ends if median is not None]
        if len(known) >= 2:
            path = f"{number(known[0][1], 3)} → {number(known[-1][1], 3)}"
            top = max(known, key=lambda pair: measured.metric(metric).sign * pair[1])
            best = "" if top in (known[0], known[-1]) else f" (best {number(top[1], 3)} at {written(top[0])})"
            first = measured.names.group(series.points[0][1], without=[view.path])
            pieces.append(f"{first} {path}{best}".strip())
    if not pieces:
        return ""
    more = f"; and {len(view.series) - MOST} series more" if len(view.series) > MOST else ""
    span = f"{view.name} {written(view.values[0])} to {written(view.values[-1])}"
    return f"Medians from {span}: {'; '.join(pieces)}{more}."


def _collapses(measured: Measured) -> str:
    found = [c for name in measured.group_names if (c := collapse_of(measured, name)) is not None]
    fallen = [c for c in found if c.share.count]
    if not found or measured.plan.groups[0].classes is None:
        return ""
    if not fallen:
        return "No network stayed at chance."
    told = "; ".join(collapse_words(measured, c) for c in fallen[:MOST])
    return f"Ended at chance: {told}{_more(len(fallen))}."


def collapse_words(measured: Measured, c: Collapse) -> str:
    """`30 layers, no skip 7 of 10 (35–93 %), median 0.114, the others escaped after epochs 12, 30, 31`."""
    words = f"{_called(measured, c.group)} {c.share.count} of {c.share.n} ({percent_range(c.share)})"
    words += f", {c.unknown} without a number" if c.unknown else ""
    words += f", median {number(c.median, 3)}"
    if c.mixed and c.escapes:
        who, when = ("other", "epoch") if len(c.escapes) == 1 else ("others", "epochs")
        more = ", …" if len(c.escapes) > 6 else ""
        words += f", the {who} escaped after {when} {', '.join(map(str, c.escapes[:6]))}{more}"
    return words


def _factors(measured: Measured, metric: str) -> str:
    found = effects_of(measured, metric)
    if found is None:
        counts = measured.counts()
        lost = f"{counts['diverged']} trials diverged, {counts['failed']} failed"
        return f"Effects are not given: no seed has a number in every group ({lost})." if is_full_grid(measured) else ""
    largest = found.mains[0]
    return (
        f"{say_shares(measured.names, found)}. The largest, {name_setting(measured.names, largest.path)}, moves the "
        f"median by {_moved(found, largest.range)}{_by_level(measured, found)}{_holes(found)}."
    )


def say_shares(names: Names, found: Effects) -> str:
    """How much each factor explains by itself, and which pairs explain more: one sentence without its full stop."""
    axis = partial(name_setting, names)
    mains = [f"{axis(main.path)} {100 * main.share:.0f} %" for main in found.mains]
    mains[0] = f"{axis(found.mains[0].path)} by itself explains {100 * found.mains[0].share:.0f} %"
    pairs = [
        f"{join(list(map(axis, pair.paths)))} {100 * pair.share:.0f} %"
        for pair in found.interactions
        if pair.share >= 0.05
    ]
    joint = f"; acting together, {join(pairs)}" if pairs else ""
    logs = " (of the logarithm)" if found.logs else ""
    return f"Of the variance between groups{logs}, {join(mains)}{joint}"


def _moved(found: Effects, size: Estimate) -> str:
    sure = "" if size.bounded else f" [{found.size(size.low)}, {found.size(size.high)}]"
    return f"{found.size(size.value)}{sure}"


def _by_level(measured: Measured, found: Effects) -> str:
    """Where two factors act together, each by level of the other."""
    if not found.conditional:
        return ""
    first = found.conditional[0]
    same = [c for c in found.conditional if (c.path, c.other) == (first.path, first.other)]
    shown = same if len(same) <= MOST else [same[0], same[-1]]
    names = measured.names
    values = {label(value): value for value in names.axes[first.other]}
    told = "; ".join(f"{_moved(found, c.range)} {say_level(names, c.other, values[c.level])}" for c in shown)
    one, other = name_setting(names, first.path), name_setting(names, first.other)
    return f". {capital(one)} and {other} act together: {one} moves it by {told}"


def _holes(found: Effects) -> str:
    """Seeds that cannot enter, and trials that diverged."""
    left = f"{counted(found.left_out, 'seed')} left out because a group has no number" if found.left_out else ""
    gone = f"{found.diverged} of {found.trials} trials diverged" if found.diverged else ""
    words = "; ".join(filter(None, (left, gone)))
    return f" ({words})" if words else ""


def _speed(measured: Measured) -> str:
    target = measured.study.target
    found = [c for name in measured.group_names if (c := convergence_of(measured, name)) is not None]
    if target is None or not found:
        return ""
    pieces = []
    for c in found[:MOST]:
        if math.isinf(c.epochs):
            lost = f" ({c.unknown} without a number)" if c.unknown else ""
            pieces.append(f"{_called(measured, c.group)} in {c.reached.count} of {c.reached.n} seeds{lost}")
        else:
            name = _called(measured, c.group)
            pieces.append(f"{name} after {number(c.epochs, 3)} epochs, {number(c.seconds, 2)} s")
    goal = f"{measured.metric(target.metric).label} {written(target.value)}"
    return f"Reached {goal} (median): {'; '.join(pieces)}{_more(len(found))}."


def _price(measured: Measured) -> str:
    value = next((m for m in ("test_accuracy", "validation_accuracy") if m in measured.metrics), None)
    if value is None or len(measured.group_names) < 6:
        return ""
    found = offers(measured, value, "seconds_per_epoch")
    best = frontier(found)
    if len(best) in (0, len(found)):
        return ""
    names = _listed([_called(measured, offer.group) for offer in best])
    open_ = sum(offer.dominated and not offer.settled for offer in found)
    unsettled = f" ({counted(open_, 'other group')}: dominated by medians only)" if open_ else ""
    pareto = f"Pareto-optimal (accuracy vs. seconds per epoch): {len(best)} of {len(found)} groups: {names}"
    return f"{pareto}{unsettled}."


def _published(measured: Measured) -> str:
    rows = [row for row in compare_numbers(measured) if row.tested]
    if not rows:
        return ""
    same = sum(row.outcome == "consistent" for row in rows)
    where_from = "where a new seed of ours would fall (95 %)"
    counted = f"Of {len(rows)} published numbers {same} {'lies' if same == 1 else 'lie'} {where_from}."
    if len(rows) == 1:
        counted = f"The published number {'lies' if same else 'does not lie'} {where_from}."
    return " ".join([counted, *(fits.sentence for fits in fit_measures(measured))])


def _called(measured: Measured, group: str) -> str:
    return measured.names.group(group)


def _listed(names: list[str]) -> str:
    return "; ".join(names[:MOST]) + (f"; and {len(names) - MOST} more" if len(names) > MOST else "")


def _more(count: int) -> str:
    return f"; and {count - MOST} more" if count > MOST else ""

"""What the numbers of a study show beside its answer, and of which measure a write-up's layer numbers are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gradlab.analysis.claims.numbers import Comparison, compare_numbers
from gradlab.analysis.comparison import Best, Collapse, best_of, collapse_of, convergence_of, frontier, offers
from gradlab.analysis.effects import Effects, axis_view, effects_of, is_full_grid
from gradlab.analysis.estimate import Estimate, interval, percent_range, times
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules.prediction import predict_seed
from gradlab.analysis.tasks import over_tasks
from gradlab.analysis.theory import theory_sentence
from gradlab.spec.metric import Metric
from gradlab.spec.naming import name_setting, say_inside, say_level
from gradlab.spec.paths import label
from gradlab.words import SHOWN, capital, counted, join, listed, percent, rounded, written

# Which of the lab's measures a write-up's layer numbers are: the one that fits them best.
#
# A write-up that prints "gradients" by layer seldom says of what; the study marks such numbers as `guessed`. Every
# layer measure that was taken is compared with the printed numbers, at the same layers and step; the one that is
# closest, by the median factor between printed and measured, is named. A measure that the write-up names is not guessed
# at.

FEWEST = 2
"""Numbers below which nothing is said: one number fits too much."""


@dataclass(frozen=True)
class Fit:
    """How closely a measure fits printed numbers."""

    measure: str
    label: str
    """What people call the measure."""
    factor: float
    """Median over the numbers of max(printed/measured, measured/printed)."""
    consistent: int
    """How many of the numbers a new seed could have given."""
    numbers: int


@dataclass(frozen=True)
class Fits:
    """The measures in the order of how well they fit the layer numbers that were printed as one quantity."""

    declared: str
    """The measure under which the study lists the numbers."""
    step: int | str | None
    best: tuple[Fit, ...]

    @property
    def sentence(self) -> str:
        """Which measure the numbers are, in words."""
        first = self.best[0]
        own = next((fit for fit in self.best if fit.measure == self.declared), None)
        when = "at initialization" if self.step == "start" else "after training"
        fits = f"{first.consistent} of {first.numbers} within a new seed's range, typically {times(first.factor)} apart"
        text = f"The {first.numbers} published layer numbers {when} fit {first.label} (`{first.measure}`) best: {fits}"
        rival = own if own is not None and own is not first else next(iter(self.best[1:]), None)
        if rival is None:
            return f"{text}."
        return f"{text}; {rival.label}: {rival.consistent} of {rival.numbers}, {times(rival.factor)} apart."


def fit_measures(measured: Measured) -> tuple[Fits, ...]:
    """For each layer quantity of which numbers were published: all measures of the same kind, the best fit first."""
    families: dict[tuple[str, int | str | None], list[Comparison]] = {}
    for row in compare_numbers(measured):
        compared = row.guessed and row.tested and row.incomparable is None
        if compared and row.at.layer is not None and row.group in measured.group_names:
            families.setdefault((row.metric, row.at.step), []).append(row)
    found = []
    for (declared, step), rows in families.items():
        like = measured.metric(declared)
        rivals = [name for name in measured.measures if _comparable(measured.metric(name), like)]
        fits = [fit for name in rivals if (fit := _fit(measured, name, rows))]
        if len(rows) >= FEWEST and len(fits) > 1:
            found.append(Fits(declared, step, tuple(sorted(fits, key=lambda fit: fit.factor))))
    return tuple(found)


def _comparable(metric: Metric, declared: Metric) -> bool:
    """Sizes with sizes; what a forward pass leaves with its like, everything else with the rest."""
    return metric.kind == declared.kind and metric.on_logs and metric.forward == declared.forward


def _fit(measured: Measured, measure: str, rows: Sequence[Comparison]) -> Fit | None:
    factors, consistent = [], 0
    metric = measured.metric(measure)
    for row in rows:
        sample = measured.sample(measure, row.group, row.at)
        prediction = predict_seed(metric, sample, trained=row.at.step not in ("start", 0))
        consistent += prediction is not None and row.published.overlaps(prediction.low, prediction.high)
        known = [value for value in sample.known if math.isfinite(value)]
        if not known:
            return None
        factors.append(_apart(median(known), row.published.value))
    return Fit(measure, metric.label, median(factors), consistent, len(rows))


def _apart(measured: float, printed: float) -> float:
    """How many times larger one is than the other; infinite if just one of them is 0."""
    low, high = sorted((abs(measured), abs(printed)))
    return 1.0 if low == high else high / low if low else math.inf


# One paragraph per study, written from the numbers: what was measured, how sure, against what was published.


MOST = 3
"""Findings that a reader is told; the others stand with the tables."""


def findings(measured: Measured) -> str:
    """All of them as one paragraph; empty where the study has fewer than two groups with a number."""
    return " ".join(list_findings(measured))


def list_findings(measured: Measured) -> tuple[str, ...]:
    """One finding each, those that say most to a reader first."""
    headline = measured.headline
    if headline is None or headline.at.layer is not None or len(measured.group_names) < 2:
        return ()
    metric = headline.metric
    if told := _over_tasks(measured, metric):  # one group is an arm on a task: the best of them says nothing
        return (told,)
    found = (
        _along(measured, metric),
        _factors(measured, metric),
        _collapses(measured),
        _best(measured, metric),
        theory_sentence(measured),
        _published(measured),
        _speed(measured),
        _price(measured),
    )
    return tuple(filter(None, found))


MOST_ARMS = 12
"""Arms over several tasks that are listed."""


def _over_tasks(measured: Measured, metric: str) -> str:
    """Arms over several tasks: interquartile means and the probability that a run beats one of the first arm."""
    found = over_tasks(measured, metric)
    if found is None:
        return ""
    first, *others = found.scores

    def told(center: float, low: float, high: float) -> str:
        return f"{written(center)} [{written(low)}, {written(high)}]"

    means = listed([f"{arm} {told(*found.middle_mean(arm))}" for arm in found.scores], MOST_ARMS, apart="; ")
    better = listed([f"{arm} {told(*found.improvement(arm, first))}" for arm in others], MOST_ARMS, apart="; ")
    tasks = len(found.scores[first])
    scale = "" if found.one_scale else " They are not: medians of tasks are more than 10 times apart; normalize them."
    return (
        f"Over {tasks} tasks, interquartile mean of all runs: {means}. Probability that a run beats one of {first} on "
        f"the same task: {better}. Brackets: 95 % bootstrap over runs within tasks; means assume that the numbers of "
        f"all tasks are on one scale.{scale}"
    )


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
    ties = [_called(measured, name) for name in found.ties]
    return f"{words}; not settled against {listed(ties, apart='; ')}."


def _sampled(found: Best) -> str:
    """What the finite test set adds to the uncertainty of an accuracy."""
    error = found.estimate.sampling_error
    return "" if error is None else f" (± {rounded(error, 2)} from the finite test set)"


def _along(measured: Measured, metric: str) -> str:
    """From one end of the axis to the other, series by series."""
    view = axis_view(measured)
    if view is None or not view.numeric or len(view.values) < 3:
        return ""
    pieces = []
    for series in view.series[:SHOWN]:
        ends = [(value, measured.summary(metric, group).value) for value, group in series.points]
        known = [(value, median) for value, median in ends if median is not None]
        if len(known) >= 2:
            path = f"{rounded(known[0][1])} → {rounded(known[-1][1])}"
            top = max(known, key=lambda pair: measured.metric(metric).sign * pair[1])
            best = "" if top in (known[0], known[-1]) else f" (best {rounded(top[1])} at {written(top[0])})"
            first = measured.names.group(series.points[0][1], without=[view.path])
            pieces.append(f"{first} {path}{best}".strip())
    if not pieces:
        return ""
    more = f"; and {len(view.series) - SHOWN} series more" if len(view.series) > SHOWN else ""
    span = f"{view.name} {written(view.values[0])} to {written(view.values[-1])}"
    return f"Medians from {span}: {'; '.join(pieces)}{more}."


def _collapses(measured: Measured) -> str:
    found = [c for name in measured.group_names if (c := collapse_of(measured, name)) is not None]
    fallen = [c for c in found if c.share.count]
    if not found or measured.plan.groups[0].classes is None:
        return ""
    if not fallen:
        return "No network stayed at chance."
    return f"Ended at chance: {listed([collapse_words(measured, c) for c in fallen], apart='; ')}."


def collapse_words(measured: Measured, c: Collapse) -> str:
    """`30 layers, no skip 7 of 10 (35–93 %), median 0.114, the others escaped after epochs 12, 30, 31`."""
    words = f"{_called(measured, c.group)} {c.share.count} of {c.share.n} ({percent_range(c.share)})"
    words += f", {c.unknown} without a number" if c.unknown else ""
    words += f", median {rounded(c.median)}"
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
        f"{say_shares(found)}. The largest, {name_setting(largest.path)}, moves the "
        f"median by {_moved(found, largest.range)}{_by_level(measured, found)}{_holes(found)}."
    )


def say_shares(found: Effects) -> str:
    """How much each factor explains by itself, and which pairs explain more: one sentence without its full stop."""
    mains = [f"{name_setting(main.path)} {percent(main.share)}" for main in found.mains]
    mains[0] = f"{name_setting(found.mains[0].path)} by itself explains {percent(found.mains[0].share)}"
    pairs = [
        f"{join(list(map(name_setting, pair.paths)))} {percent(pair.share)}"
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
    shown = same if len(same) <= SHOWN else [same[0], same[-1]]
    names = measured.names
    values = {label(value): value for value in names.axes[first.other]}
    told = "; ".join(f"{_moved(found, c.range)} {say_level(names, c.other, values[c.level])}" for c in shown)
    one, other = name_setting(first.path), name_setting(first.other)
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
    for c in found:
        if math.isinf(c.epochs):
            lost = f" ({c.unknown} without a number)" if c.unknown else ""
            pieces.append(f"{_called(measured, c.group)} in {c.reached.count} of {c.reached.n} seeds{lost}")
        else:
            name = _called(measured, c.group)
            pieces.append(f"{name} after {rounded(c.epochs)} epochs, {rounded(c.seconds, 2)} s")
    goal = f"{measured.metric(target.metric).label} {written(target.value)}"
    return f"Reached {goal} (median): {listed(pieces, apart='; ')}."


def _price(measured: Measured) -> str:
    value = next((m for m in ("test_accuracy", "validation_accuracy") if m in measured.metrics), None)
    if value is None or len(measured.group_names) < 6:
        return ""
    found = offers(measured, value, "seconds_per_epoch")
    best = frontier(found)
    if len(best) in (0, len(found)):
        return ""
    names = listed([_called(measured, offer.group) for offer in best], apart="; ")
    open_ = sum(offer.dominated and not offer.settled for offer in found)
    unsettled = f" ({counted(open_, 'other group')}: dominated by medians only)" if open_ else ""
    pareto = f"Pareto-optimal (accuracy vs. seconds per epoch): {len(best)} of {len(found)} groups: {names}"
    return f"{pareto}{unsettled}."


def _published(measured: Measured) -> str:
    found = compare_numbers(measured)
    told = [_count_matches([row for row in found if row.outcome in ("consistent", "not consistent", "says little")])]
    if strange := [row for row in found if row.incomparable is not None]:
        told.append(f"{counted(len(strange), 'published number')} not comparable: {strange[0].incomparable}.")
    return " ".join(filter(None, told))


def _count_matches(rows: Sequence[Comparison]) -> str:
    """How many of the compared numbers a new seed could have given, and for how many that says little."""
    counts = Counter(row.outcome for row in rows)
    same, little = counts["consistent"], counts["says little"]
    where_from = "where a new seed of ours would fall (95 %)"
    if not rows:
        return ""
    if len(rows) == 1 and not little:
        return f"The published number {'lies' if same else 'does not lie'} {where_from}."
    wide = f"; {little} more {'do' if little > 1 else 'does'}, but so would almost any number" if little else ""
    return f"Of {counted(len(rows), 'published number')} {same} {'lies' if same == 1 else 'lie'} {where_from}{wide}."


def _called(measured: Measured, group: str) -> str:
    return measured.names.group(group)

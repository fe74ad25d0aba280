"""Numbers against the axis that a study sweeps, main effects of its factors, and cost against value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from gradlab.analysis import comparison
from gradlab.analysis.claims.numbers import compare_numbers
from gradlab.analysis.effects import AxisView, axis_view, effects_of, is_full_grid
from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.errors import InvalidInput
from gradlab.report.charts import AxisChart, Dots, EffectChart, Offer, ParetoChart, Points
from gradlab.report.figures.base import MOST_NAMED, WIDE, Figure, Numbers, levels_of, say_apart
from gradlab.spec.naming import Names, say_inside, say_levels
from gradlab.tell.findings import say_shares
from gradlab.words import capital, counted, join, percent, written

LEVEL = 1.05
"""Along an axis: values that all lie within this factor stay."""


class AxisFigure(Figure):
    """A trial metric against the study's main axis: every seed a dot, one line per series, published numbers beside."""

    metrics: ClassVar[tuple[str, ...]]
    """The first of these that was measured is shown."""
    needs: ClassVar[str] = ""
    """A metric without which another figure shows the same already."""
    what: ClassVar[str] = "{}"
    """The metric inside a sentence."""
    log_y: ClassVar[bool] = True

    def chart(self, measured: Measured) -> AxisChart | None:
        """Accuracies with the level of chance."""
        metric = next((name for name in self.metrics if name in measured.metrics), None)
        if metric is None or (self.needs and self.needs not in measured.metrics):
            return None
        view = axis_view(measured)
        if view is None or (not view.numeric and len(view.values) < 3 and len(view.series) < 2):
            return None  # two arms are told better by a table
        lines = tuple(_dots(measured, metric, view, index) for index in range(len(view.series)))
        finite = [float(v) for dots in lines for values in dots.values for v in values]
        if not finite:
            return None
        joins = "the line joins the medians" if view.numeric else "a large mark is their median"
        note = f"every dot is a seed, {joins}" if measured.seeds_done > 1 else counted(measured.seeds_done, "seed")
        planned = sum(len(measured.planned_seeds[group]) for series in view.series for _, group in series.points)
        missing = planned - len(finite)
        note += f"; {counted(missing, 'trial')} without a finite number not drawn" if missing else ""
        name, label = measured.names.axis(view.path), metric.replace("_", " ")
        classes = measured.plan.groups[0].classes
        chance = ((1 / classes, "chance"),) if classes and measured.metric(metric).kind == "accuracy" else ()
        return AxisChart(
            f"{label[0].upper()}{label[1:]} by {name}",
            name,
            label,
            lines,
            ticks=tuple((view.place(value), measured.names.tick(view.path, value)) for value in view.values),
            log_x=view.by_ratio,
            log_y=self.log_y and min(finite) > 0 and max(finite) > WIDE * min(finite),
            points=_published_on_axis(measured, metric, view),
            levels=(*chance, *levels_of(measured, metric)),
            joined=view.numeric,
            path=view.path,
            note=note,
            finding=see_axis(measured, lines, view.path, self.what.format(label), ordered=view.numeric),
        )


class AccuracyByAxis(AxisFigure):
    """Test accuracy (or validation, or training) against the study's main axis; every seed is shown."""

    name = "accuracy_by_axis"
    shows = ("test_accuracy", "validation_accuracy", "train_accuracy", "collapsed")
    rank = 5
    metrics, log_y = ("test_accuracy", "validation_accuracy", "train_accuracy"), False


class LossByAxis(AxisFigure):
    """Test loss (or validation, or final training loss) against the study's main axis; every seed is shown."""

    name = "loss_by_axis"
    shows = ("test_loss", "validation_loss", "final_loss")
    rank = 6
    metrics, what = ("test_loss", "validation_loss", "final_loss"), "the {}"


class ValidationAccuracyByAxis(AxisFigure):
    """Accuracy on the validation data, every seed a dot."""

    name = "validation_accuracy_by_axis"
    shows = ("validation_accuracy",)
    rank = 8
    metrics, needs, log_y = ("validation_accuracy",), "test_accuracy", False


class ValidationLossByAxis(AxisFigure):
    """Loss on the validation data, every seed a dot."""

    name = "validation_loss_by_axis"
    shows = ("validation_loss",)
    rank = 9
    metrics, needs, what = ("validation_loss",), "test_loss", "the {}"


class RuntimeByAxis(AxisFigure):
    """Seconds per epoch (training only) against the study's main axis; every seed is shown."""

    name = "runtime_by_axis"
    shows = ("seconds_per_epoch",)
    rank = 40
    metrics, what = ("seconds_per_epoch",), "the time of an epoch in seconds"


def _dots(measured: Measured, metric: str, view: AxisView, index: int) -> Dots:
    series = view.series[index]
    found = []
    for _, group in series.points:
        values = np.array([v for v in measured.values(metric, group).values() if v is not None], float)
        found.append(values[np.isfinite(values)])
    groups = tuple(group for _, group in series.points)
    places = np.array([view.place(v) for v, _ in series.points])
    medians = np.array([float(np.median(values)) if len(values) else np.nan for values in found])
    name = series.label or view.name
    return Dots(name, places, medians, medians, medians, index, values=tuple(found), groups=groups)


def _published_on_axis(measured: Measured, metric: str, view: AxisView) -> tuple[Points, ...]:
    rows = {
        row.group: row.published.value
        for row in compare_numbers(measured)
        if row.metric == metric and row.at.layer is None
    }
    found = []
    for index, series in enumerate(view.series):
        there = [(view.place(value), rows[group]) for value, group in series.points if group in rows]
        if there:
            x, y = np.array(there).T
            found.append(Points("published", x, y, index, series.points[0][1]))
    return tuple(found)


def see_axis(measured: Measured, series: Sequence[Dots], path: str, what: str, *, ordered: bool) -> str:
    """What happens along an axis: from its first value to its last, or its lowest and highest level."""
    names = measured.names.by_settings
    found = []
    for dots in series:
        there = [group for group, values in zip(dots.groups, dots.values, strict=True) if len(values)]
        if there:
            found.append((there, dots.medians[1]))
    if not found:
        return ""
    if not ordered or len(found) > MOST_NAMED:
        flat = sorted((float(v), group) for groups, y in found for group, v in zip(groups, y, strict=True))
        (low, first), (high, last) = flat[0], flat[-1]
        ends = f"lowest {say_inside(names, first)} ({written(low)}) and highest {say_inside(names, last)}"
        return f"{capital(what)} is {ends} ({written(high)}){say_apart(low, high)}."
    start, end = (names.groups[group].settings[path] for group in (found[0][0][0], found[0][0][-1]))
    told: list[str] = []
    verbs: list[str] = []
    for groups, y in found:
        verb, course = _say_course(y)
        words = f"{course} {_say_series(names, groups[0], path)}".strip()
        told.append(words if verbs and verb == verbs[-1] else f"{verb} {words}")
        verbs.append(verb)
    return f"From {names.span(path, start, end)}, {what} {join(told)}."


def _say_series(names: Names, group: str, path: str) -> str:
    """What sets a series apart from the others: `without the skip`."""
    return say_levels(names, group, [other for other in names.axes if other != path])


def _say_course(y: Numbers) -> tuple[str, str]:
    """The verb, and from where to where; a value in between that lies beyond both ends is told too."""
    first, last, low, high = float(y[0]), float(y[-1]), float(y.min()), float(y.max())
    if low > 0 and high / low < LEVEL:
        return "stays", f"near {written(last)}"
    verb, ends = "falls" if last < first else "rises", f"from {written(first)} to {written(last)}"
    if low > 0 and high / max(first, last) > LEVEL:
        return verb, f"{ends} (by way of {written(high)})"
    return verb, f"{ends} (by way of {written(low)})" if low > 0 and min(first, last) / low > LEVEL else ends


class Effects(Figure):
    """Mean of every level of every factor over all others, with intervals over seeds; largest effect first."""

    name = "effects"
    rank = 7

    def chart(self, measured: Measured) -> EffectChart | None:
        """Only for a full grid of two factors or more."""
        headline = measured.headline
        if headline is None or headline.at.layer is not None:
            return None
        found = effects_of(measured, headline.metric)
        if found is None:
            if is_full_grid(measured):
                counts = measured.counts()
                lost = f"{counts['diverged']} trials diverged, {counts['failed']} failed"
                raise InvalidInput(f"no seed has a number in every group ({lost})")
            return None

        def undo_logs(value: float | None) -> float | None:
            return 10**value if found.logs and value is not None else value

        def bounds(center: Estimate) -> tuple[float | None, float | None]:
            return (None, None) if center.bounded else (undo_logs(center.low), undo_logs(center.high))

        names = measured.names
        factors = tuple(
            (
                f"{names.axis(main.path)} ({percent(main.share)})",
                tuple(
                    (level, undo_logs(e.value) or 0.0, *bounds(e))
                    for level, e in zip(_levels(measured, main.path, main.levels), main.centers, strict=True)
                ),
            )
            for main in found.mains
        )
        pairs = ", ".join(
            f"{' × '.join(names.axis(path) for path in pair.paths)} {percent(pair.share)}"
            for pair in found.interactions[:3]
        )
        note = f"share of the variance between groups; interactions: {pairs}; {counted(found.seeds, 'seed')}"
        note += f"; {counted(found.left_out, 'seed')} left out because a cell has no number" if found.left_out else ""
        note += f"; {found.diverged} of {found.trials} trials diverged" if found.diverged else ""
        y_label = headline.metric.replace("_", " ")
        finding = f"{say_shares(found)}."
        return EffectChart(
            "What each factor does", f"mean {y_label}", "level", factors, found.logs, note=note, finding=finding
        )


def _levels(measured: Measured, path: str, levels: tuple[str, ...]) -> tuple[str, ...]:
    """The levels of a factor in the order of its axis, named for people."""
    values = measured.names.axes.get(path, ())
    return tuple(measured.names.level(path, value) for value in values) if len(values) == len(levels) else levels


COST = "seconds_per_epoch"
VALUES = ("test_accuracy", "validation_accuracy")


class Pareto(Figure):
    """Accuracy (or loss) against seconds per epoch: the frontier with labels, dominated groups hollow."""

    name = "pareto"
    shows = ("test_accuracy", "seconds_per_epoch")
    rank = 45

    def chart(self, measured: Measured) -> ParetoChart | None:
        """Only for four groups or more: with fewer there is nothing to choose."""
        value = next((m for m in VALUES if m in measured.metrics), None)
        if value is None or len(measured.group_names) < 4:
            return None
        found = comparison.offers(measured, value, COST)
        if len(found) < 4:
            return None
        shown = tuple(_offer(measured, each) for each in found)
        several = measured.seeds_done > 1
        note = "medians over seeds; upright bars: 95 % interval or range of seeds; level bars: times of all seeds, the "
        note = f"{note}noise of the machine" if several else "1 seed: neither the noise of seeds nor of times is known"
        return ParetoChart(
            "Accuracy against time",
            "seconds per epoch",
            value.replace("_", " "),
            shown,
            note=note,
            finding=_see_frontier(measured, found, value.replace("_", " ")),
        )


def _offer(measured: Measured, found: comparison.Offer) -> Offer:
    times = [float(v) for v in measured.values(COST, found.group).values() if v is not None and np.isfinite(v)]
    worth = found.value_range
    low, high = (worth.smallest, worth.largest) if worth.bounded else (worth.low, worth.high)
    return Offer(
        found.group,
        found.cost,
        found.value,
        found.dominated,
        (min(times), max(times)) if len(times) > 1 else None,
        (low, high) if low is not None and high is not None and low < high else None,
        found.settled,
        found.group,
    )


def _see_frontier(measured: Measured, found: tuple[comparison.Offer, ...], what: str) -> str:
    best = [offer for offer in found if not offer.dominated]
    cheap, good = best[0], best[-1]

    def say(offer: comparison.Offer) -> str:
        return (
            f"{measured.names.group(offer.group)} ({what} {written(offer.value)}, {written(offer.cost, 2)} s per epoch)"
        )

    if len(best) == 1:
        return f"One of {len(found)} groups is both the best and the fastest: {say(good)}."
    return (
        f"Pareto-optimal, so that no other group is both better and faster, are {len(best)} of {len(found)} groups: "
        f"from {say(cheap)} to {say(good)}."
    )

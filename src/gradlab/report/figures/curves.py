"""Curves over training: losses and accuracies by step or epoch, and learning rates as applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.measured import Measured
from gradlab.analysis.tasks import over_tasks
from gradlab.optim.schedules import Horizon, learning_rates
from gradlab.report.charts import Line, LineChart
from gradlab.report.figures.base import MOST_NAMED, Figure, Numbers, band, levels_of, say_apart, seeds_note
from gradlab.spec.naming import say_inside
from gradlab.spec.paths import label
from gradlab.words import join, rounded, written

MOST_POINTS = 1200
"""Points of a line: more than a figure has dots across."""
MOST_RATES = 2000


class TrainingLoss(Figure):
    """Training loss of every step, on a log axis."""

    name = "training_loss"
    shows = ("final_loss", "initial_loss", "last_loss", "train_loss")
    rank = 10

    def chart(self, measured: Measured) -> LineChart | None:
        """One line per group; a diverged trial's curve ends where it diverged."""
        lines = []
        for index, name in enumerate(measured.group_names):
            curves = [curve for curve in measured.curve("loss", name) if len(curve[0])]
            if curves:
                steps, table = side_by_side(curves)
                lines.append(Line(name, *thinned(steps, *band(table)), index))
        if not lines:
            return None
        return LineChart(
            "Training loss",
            "step",
            "loss",
            tuple(lines),
            log_y=not _is_negative(lines),
            levels=levels_of(measured, "final_loss"),
            note=seeds_note(measured),
            whole_x=True,
            finding=see_ends(measured, lines, "Training loss", "final_loss"),
        )


class EpochFigure(Figure):
    """The first of some curves that exists, over epochs, one line per group with a band over seeds."""

    metrics: ClassVar[tuple[str, ...]] = ()
    log_y: ClassVar[bool] = True

    def chart(self, measured: Measured) -> LineChart | None:
        """One line per group."""
        return epoch_chart(measured, self.metrics, log_y=self.log_y)


class AccuracyCurves(EpochFigure):
    """Test accuracy (or validation, or training) after every epoch, with a band over seeds."""

    name = "accuracy_curves"
    metrics, log_y = ("test_accuracy", "validation_accuracy", "train_accuracy"), False
    shows = (*metrics, "collapsed", "epochs_to_target", "steps_to_target")
    rank = 12


class LossCurves(EpochFigure):
    """Validation loss (or test) after every epoch, with a band over seeds."""

    name = "loss_curves"
    metrics = ("validation_loss", "test_loss")
    shows = ("test_loss", "validation_loss")
    rank = 13


class ReturnedCurves(Figure):
    """A curve of the user's own, one line per arm: the headline's, or else the first."""

    name = "returned_curves"
    rank = 14

    def chart(self, measured: Measured) -> LineChart | None:
        """Only of hand-written code: the lab's own curves have figures of their own."""
        if not measured.plan.own_code:
            return None
        shown = ("loss", *AccuracyCurves.metrics, *LossCurves.metrics)  # by other figures
        names = [name for name in measured.curve_names if name not in shown]
        headline = measured.headline
        if headline is not None and headline.metric in names:
            names = [headline.metric]
        return epoch_chart(measured, tuple(names[:1]), log_y=bool(names) and measured.metric(names[0]).kind == "loss")


MOST_PROFILES = 8
"""Arms of a performance profile: as many as there are strokes and colors."""


class Profiles(Figure):
    """Performance profiles over tasks: the share of runs that are at least as good as each level."""

    name = "performance_profiles"
    rank = 3

    def chart(self, measured: Measured) -> LineChart | None:
        """Of results over several tasks."""
        headline = measured.headline
        found = None if headline is None else over_tasks(measured, headline.metric)
        if headline is None or found is None:
            return None
        every = np.concatenate([task for own in found.scores.values() for task in own])
        levels = np.linspace(every.min(), every.max(), 201)
        lines = []
        better = sorted(found.scores, key=lambda arm: -found.sign * found.middle_mean(arm)[0])
        shown = [arm for arm in found.scores if arm in better[:MOST_PROFILES]]  # so that no two look alike
        left = "" if len(shown) == len(found.scores) else f"; the best {len(shown)} of {len(found.scores)} arms"
        for place, arm in enumerate(shown):
            y = found.profile(arm, levels)
            lines.append(Line(arm, levels, y, y, y, place))
        way = "at least" if found.sign > 0 else "at most"
        return LineChart(
            "Performance profiles",
            f"{measured.metric(headline.metric).label}, τ",
            f"share of runs with {way} τ",
            tuple(lines),
            note=f"mean over {len(next(iter(found.scores.values())))} tasks of the share of its runs{left}",
            finding=f"{'Higher' if found.sign else 'Further'} curves are better at every level that they lead.",
        )


class Schedules(Figure):
    """Learning rate over the steps, one line per distinct schedule of the study."""

    name = "schedules"
    rank = 48

    def chart(self, measured: Measured) -> LineChart | None:
        """Only where groups differ in it."""
        catalog = measured.plan.catalog
        lines: dict[str, Line] = {}
        for planned in measured.plan.groups:
            if planned.network is None or planned.cost.steps == 0:
                continue
            train, cost = planned.config.train, planned.cost
            if train.schedule.build(catalog).reaction(train.lr) is not None:
                continue  # its rates follow from training, trial by trial
            words = f"{label(train.schedule.model_dump(mode='json'))}, lr {train.lr:g}, {cost.steps:,} steps"
            if words in lines:
                continue
            horizon = Horizon(cost.steps, cost.steps_per_epoch)
            rates = learning_rates(train.schedule.build(catalog), train.lr, train.warmup, horizon)
            chosen = np.unique(np.linspace(0, len(rates) - 1, MOST_RATES).astype(int))
            y = rates[chosen]
            lines[words] = Line(words, chosen + 1.0, y, y, y, len(lines))
        if len(lines) < 2:
            return None
        starts, ends = ([float(line.y[place]) for line in lines.values()] for place in (0, -1))
        finding = f"The {len(lines)} schedules start {_say_span(starts)} and end {_say_span(ends)}."
        shown = tuple(lines.values())
        return LineChart("Learning rate as applied", "step", "learning rate", shown, whole_x=True, finding=finding)


def _say_span(values: list[float]) -> str:
    low, high = written(min(values)), written(max(values))
    return f"at {low}" if low == high else f"between {low} and {high}"


def thinned(x: Numbers, center: Numbers, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """A long curve in as many points as a picture can show: of each stretch the median, the lowest, the highest."""
    if len(x) <= MOST_POINTS:
        return x, center, low, high
    edges = np.linspace(0, len(x), MOST_POINTS + 1).astype(int)
    pieces = [slice(a, b) for a, b in pairwise(edges)]
    return (
        np.array([x[piece][-1] for piece in pieces]),
        np.array([_some(np.median, center[piece]) for piece in pieces]),
        np.array([_some(np.min, low[piece]) for piece in pieces]),
        np.array([_some(np.max, high[piece]) for piece in pieces]),
    )


def _some(reduce: Callable[[Numbers], float], values: Numbers) -> float:
    finite = values[np.isfinite(values)]
    return float(reduce(finite)) if len(finite) else float("nan")


def side_by_side(curves: Sequence[tuple[NDArray[np.int64], Numbers]]) -> tuple[Numbers, Numbers]:
    """All steps of some curves, and values[curve, step], NaN where a curve has none."""
    steps = np.unique(np.concatenate([steps for steps, _ in curves]))
    table = np.full((len(curves), len(steps)), np.nan)
    for row, (own, values) in zip(table, curves, strict=True):
        row[np.searchsorted(steps, own)] = values
    return steps.astype(float), table


def epoch_chart(measured: Measured, metrics: tuple[str, ...], *, log_y: bool) -> LineChart | None:
    """The first of these curves that exists, over epochs, one line per group with a band over seeds."""
    metric = next((name for name in metrics if name in measured.metrics), None)
    if metric is None:
        return None
    lines = []
    longest = 1
    for index, planned in enumerate(measured.plan.groups):
        curves = measured.curve(metric, planned.group.name)
        if not curves:
            continue
        steps, table = side_by_side(curves)
        epochs = steps / measured.steps_per_epoch(planned.group.name)
        longest = max(longest, len(steps))
        lines.append(Line(planned.group.name, *thinned(epochs, *band(table)), index, markers=len(steps) <= 12))
    if not lines or longest < 2:
        return None
    label = metric.replace("_", " ")
    over = "step" if measured.plan.own_code else "epoch"
    title = f"{label[0].upper()}{label[1:]}"
    return LineChart(
        f"{title} by {over}",
        over,
        label,
        tuple(lines),
        log_y=log_y and not _is_negative(lines),
        whole_x=True,
        note=seeds_note(measured),
        finding=see_ends(measured, lines, title, metric),
    )


def _is_negative(lines: Sequence[Line]) -> bool:
    """Whether a curve goes below 0, as log-likelihoods of densities do: a log axis would lose it."""
    return any(bool((np.asarray(line.y) < 0).any()) for line in lines)


LATELY = "the mean of the last steps"
"""What `final_loss` is, beside a curve whose last point is another number."""


def see_ends(measured: Measured, lines: Sequence[Line], what: str, metric: str = "") -> str:
    """Where curves end: `Training loss ends at 0.332 in the plain network and at 0.063 in the residual network`.

    With a metric of trials, the numbers are its own, those of the answer and of the tables.
    """
    known = metric in measured.metrics
    ends = []
    for line in lines:
        there = np.flatnonzero(np.isfinite(line.y))
        value = (
            measured.summary(metric, line.group).value if known else float(line.y[there[-1]]) if len(there) else None
        )
        if value is not None and np.isfinite(value):
            ends.append((say_inside(measured.names, line.group), float(value)))
    if not ends:
        return ""
    lately = f" ({LATELY})" if known and metric == "final_loss" else ""
    if len(ends) == 1:
        return f"{what} ends at {rounded(ends[0][1])}{lately}."
    values = [value for _, value in ends]
    if len(ends) > MOST_NAMED:
        (low_where, low), *_, (high_where, high) = sorted(ends, key=lambda end: end[1])
        return f"{what} ends lowest {low_where} ({rounded(low)}) and highest {high_where} ({rounded(high)}){lately}."
    told = join([f"at {rounded(value)} {where}" for where, value in ends])
    return f"{what} ends {told}{lately}{'' if known else say_apart(min(values), max(values))}."

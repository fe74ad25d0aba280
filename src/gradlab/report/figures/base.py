"""What a figure is: a chart computed from what was measured, or nothing where it does not apply."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.claims.numbers import compare_numbers
from gradlab.analysis.effects import AxisView, axis_view
from gradlab.analysis.measured import Measured, Profile
from gradlab.analysis.theory import predictions_of
from gradlab.parts import Part
from gradlab.report.charts import AxisChart, Chart, Dots, Line, LineChart, Points
from gradlab.report.seeing import see_axis, see_ends, see_layers, see_range
from gradlab.spec.numerals import counted

Numbers = NDArray[np.float64]
FEW_SEEDS = 20
MOST_POINTS = 1200
"""Points of a line: more than a figure has dots across."""


class Figure(Part):
    """Compute, then draw: `chart` returns data, and the same chart is drawn for terminal, page and file.

    `rank` is its place in the report of a study that names no figures.
    """

    part: ClassVar[str] = "figure"
    shows: ClassVar[tuple[str, ...]] = ()
    """Metrics and measures that can be read off it (`grad_l2@start`: as they are then), to find a claim's figure."""

    @abstractmethod
    def chart(self, measured: Measured) -> Chart | None:
        """What the figure shows; None where the study has nothing of the kind.

        measured: the run's tables through its plan: `measured.values(metric, group)`, `measured.curve(metric, group)`,
        `measured.profile(measure, group, step)`; read only.
        Returns one of the charts of `gradlab.report.charts` with a title and both axis labels: all groups, each line
        labeled with its group's name. The report then gives it names for people, strokes and panels. Must be
        deterministic.
        """


def band(values: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Median and band over seeds (axis 0) of the finite values; NaN where there is none.

    The band is smallest to largest for few seeds, 5 % to 95 % of them for many.
    """
    finite = np.where(np.isfinite(values), values, np.nan)
    there = np.isfinite(finite).any(0)
    edge = 0.05 if len(values) > FEW_SEEDS else 0.0
    rows = np.full((3, values.shape[1]), np.nan)
    rows[:, there] = np.nanquantile(finite[:, there], (0.5, edge, 1 - edge), axis=0)
    center, low, high = rows
    return center, low, high


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


def layer_line(profile: Profile, label: str, style: int) -> Line | None:
    """A layer profile as a line, without the layers where the measure does not exist."""
    if profile.values.size == 0:
        return None
    center, low, high = band(profile.values)
    there = np.isfinite(center)
    if not there.any():
        return None
    return Line(label, profile.layers[there].astype(float), center[there], low[there], high[there], style, markers=True)


def layer_chart(
    measured: Measured,
    measure: str,
    title: str,
    y_label: str,
    *,
    what: str,
    step: str = "end",
    log_y: bool = True,
    backwards: bool = True,
) -> LineChart | None:
    """A measure by layer, one line per group, published numbers beside; the title gets when it was taken.

    `what`: the measure inside a sentence, `the weight gradient`.
    `backwards`: the caption says how it changes from the last layer to the first, as gradients do.
    """
    if measure not in measured.measures:
        return None
    found = [
        layer_line(measured.profile(measure, name, step), name, index)
        for index, name in enumerate(measured.group_names)
    ]
    lines = tuple(line for line in found if line is not None)
    if not lines:
        return None
    expected = theory_lines(measured, measure) if _moment(measured, step) == "at initialization" else ()
    return LineChart(
        f"{title}, {_moment(measured, step)}",
        "layer",
        y_label,
        lines,
        published_points(measured, measure, step),
        log_y=log_y,
        whole_x=True,
        theory=expected,
        note=seeds_note(measured) + theory_note(measured, expected),
        finding=see_layers(measured, lines, what, backwards=backwards) if log_y else see_range(measured, lines, what),
    )


def theory_lines(measured: Measured, measure: str) -> tuple[Line, ...]:
    """What theory predicts of a measure before training, one line per group with its band over seeds."""
    found = []
    for index, name in enumerate(measured.group_names):
        prediction = predictions_of(measured).get(name)
        forecasts = {} if prediction is None else dict(prediction.forecasts.get(measure, {}))
        shown = [(layer, one) for layer, one in sorted(forecasts.items()) if one.signed or one.center > 0]
        if shown:
            x = np.array([float(layer) for layer, _ in shown])
            y, low, high = (np.array([getattr(one, edge) for _, one in shown]) for edge in ("center", "low", "high"))
            found.append(Line(name, x, y, low, high, index, faint=True))
    return tuple(found)


def theory_note(measured: Measured, lines: tuple[Line, ...]) -> str:
    """What the dotted line is, where it is not exact."""
    known = predictions_of(measured) if lines else {}
    drawn = [name for name, one in known.items() if one.reasons]
    if not lines:
        return ""
    if not drawn:
        return "; dotted: theory"
    whose = "all groups" if len(drawn) == len(known) else f"{len(drawn)} of {len(known)} groups"
    return f"; dotted: theory, simulated for {whose}"


def _moment(measured: Measured, step: str) -> str:
    """When a layer figure was taken: a study of 0 steps has no training to come after."""
    trained = any(entry.known_cost is None or entry.known_cost.steps > 0 for entry in measured.plan.groups)
    return "after training" if step == "end" and trained else "at initialization"


def published_points(measured: Measured, measure: str, step: str) -> tuple[Points, ...]:
    """Published numbers of this measure that have a layer."""
    found = []
    rows = [
        row
        for row in compare_numbers(measured)
        if row.metric == measure and isinstance(row.at.layer, int) and row.at.step == step
    ]
    for index, name in enumerate(measured.group_names):
        own = [row for row in rows if row.group == name]
        if own:
            x = np.array([float(row.at.layer) for row in own])  # type: ignore[arg-type]
            found.append(Points("published", x, np.array([row.published.value for row in own]), index, name))
    return tuple(found)


def levels_of(measured: Measured, metric: str) -> tuple[tuple[float, str], ...]:
    """The study's own reference lines for a metric."""
    return tuple((level.value, level.name) for level in measured.study.levels if level.metric == metric)


def seeds_note(measured: Measured) -> str:
    """What line and band are."""
    count = measured.seeds_done
    if count <= 1:
        return counted(count, "seed")
    extent = "smallest to largest" if count <= FEW_SEEDS else "5 % to 95 %"
    return f"line: median, band: {extent} of {counted(count, 'seed')}"


def axis_chart(
    measured: Measured,
    metric: str,
    y_label: str,
    *,
    what: str = "",
    log_y: bool = False,
    levels: tuple[tuple[float, str], ...] = (),
) -> AxisChart | None:
    """A trial metric against the study's main axis: every seed a dot, one line per series, published numbers beside.

    `what`: the metric inside a sentence, if not its label.
    """
    view = axis_view(measured)
    if view is None or metric not in measured.metrics:
        return None
    if not view.numeric and len(view.values) < 3 and len(view.series) < 2:
        return None  # two arms are told better by a table
    series = tuple(_dots(measured, metric, view, index) for index in range(len(view.series)))
    if not any(len(values) for dots in series for values in dots.values):
        return None
    finite = [float(v) for dots in series for values in dots.values for v in values]
    joins = "the line joins the medians" if view.numeric else "a large mark is their median"
    note = f"every dot is a seed, {joins}" if measured.seeds_done > 1 else counted(measured.seeds_done, "seed")
    planned = sum(len(measured.planned_seeds[group]) for each in view.series for _, group in each.points)
    missing = planned - len(finite)
    note += f"; {counted(missing, 'trial')} without a finite number not drawn" if missing else ""
    name = measured.names.axis(view.path)
    title = f"{y_label[0].upper()}{y_label[1:]}"
    return AxisChart(
        f"{title} by {name}",
        name,
        y_label,
        series,
        tuple((view.place(value), measured.names.tick(view.path, value)) for value in view.values),
        log_x=view.by_ratio,
        log_y=log_y and min(finite) > 0 and max(finite) > 8 * min(finite),
        points=_published_on_axis(measured, metric, view),
        levels=(*levels, *levels_of(measured, metric)),
        joined=view.numeric,
        path=view.path,
        note=note,
        finding=see_axis(measured, series, view.path, what or y_label, ordered=view.numeric),
    )


def _dots(measured: Measured, metric: str, view: AxisView, index: int) -> Dots:
    series = view.series[index]
    found = []
    for _, group in series.points:
        values = np.array([v for v in measured.values(metric, group).values() if v is not None], float)
        found.append(values[np.isfinite(values)])
    groups = tuple(group for _, group in series.points)
    places = np.array([view.place(v) for v, _ in series.points])
    return Dots(series.label or view.name, places, tuple(found), index, groups)


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
        log_y=log_y,
        whole_x=True,
        note=seeds_note(measured),
        finding=see_ends(measured, lines, title),
    )

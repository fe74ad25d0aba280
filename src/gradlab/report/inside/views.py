"""What theory expects of two recorded networks before training: the dotted lines of the micro-world's first step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.analysis.theory import predictions_of
from gradlab.audits.start import gain_of
from gradlab.network.skips import Skip
from gradlab.report.charts import Chart, Line, LineChart, Panels, UnitMap
from gradlab.report.charts.base import Rows
from gradlab.report.draw import draw_one
from gradlab.report.inside.recording import MOST_SAMPLES, Inspection, Recording
from gradlab.report.look import Dashes, stroke
from gradlab.spec.config import Config
from gradlab.theory.predicting import predict_groups
from gradlab.theory.prediction import Forecast, Prediction
from gradlab.words import counted, join, percent, written

Forecasts = Mapping[int, Forecast]


@dataclass(frozen=True)
class Expected:
    """What theory expects of one network, by layer: δ, what enters, and the weight gradient, as root mean squares."""

    delta: Forecasts
    entering: Forecasts
    gradient: Forecasts


@dataclass(frozen=True)
class TheoryLine:
    """A forecast by place, with the band that holds 95 % of the seeds; None where there is no forecast."""

    arm: int
    center: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


def expect(measured: Measured, arms: Mapping[str, Config]) -> tuple[Expected | None, ...]:
    """What theory expects of each arm on the batch that is inspected; None where it has no prediction."""
    known = predictions_of(measured)
    catalog, seed = measured.plan.catalog, measured.study.seed
    found: list[Expected | None] = []
    for name, config in arms.items():
        if name not in known:
            found.append(None)
            continue
        own = known[name]
        if config.measure.probe.size > MOST_SAMPLES:  # an inspection looks at the first samples only
            fewer = config.measure.probe.model_copy(update={"size": MOST_SAMPLES})
            smaller = config.model_copy(update={"measure": config.measure.model_copy(update={"probe": fewer})})
            own = predict_groups({name: smaller}, catalog, seed).get(name, own)
        skip: Skip = config.model.skip.build(catalog)
        forecasts = own.forecasts
        entering = _entering(own, config, skip)
        found.append(Expected(forecasts.get("delta_rms", {}), entering, forecasts.get("grad_rms", {})))
    return tuple(found)


def theory_lines(
    expected: tuple[Expected | None, ...], read: Callable[[Expected], Forecasts], layers: tuple[int, ...]
) -> tuple[TheoryLine, ...]:
    """The lines of one panel; `layers` is the number of places of each arm."""
    found = []
    for arm, (own, count) in enumerate(zip(expected, layers, strict=False)):
        forecasts = {} if own is None else {k: v for k, v in read(own).items() if v.center > 0}
        if forecasts:
            rows = [forecasts.get(layer) for layer in range(1, count + 1)]
            center, low, high = (
                tuple(None if one is None else float(f"{getattr(one, edge):.4g}") for one in rows)
                for edge in ("center", "low", "high")
            )
            found.append(TheoryLine(arm, center, low, high))
    return tuple(found)


def _entering(prediction: Prediction, config: Config, skip: Skip) -> Forecasts:
    """Root mean square of what each matrix multiplies: what left the layer before, or the function in front of it."""
    stream, post = _root_mean_squares(prediction, "stream"), _root_mean_squares(prediction, "post")
    first = 2 if config.model.stem == "linear" else 1
    found = {}
    for layer in prediction.layers:
        number = layer.number
        if skip.place == "before" and first <= number <= config.model.depth:
            one = post.get(number)
        elif number == 1:
            one = Forecast(sqrt(prediction.inputs["second_moment"]), 0.0, "exact")
        else:
            one = stream.get(number - 1) or post.get(number - 1)
        if one is not None:
            found[number] = one
    return found


def _root_mean_squares(prediction: Prediction, place: str) -> dict[int, Forecast]:
    """√(std² + mean²) by layer, where the mean over units is itself spread over seeds."""
    stds, means = (prediction.forecasts.get(f"activation_{what}.{place}", {}) for what in ("std", "mean"))
    found = {}
    for number, std in stds.items():
        mean = means.get(number)
        if mean is not None:
            drift = max(mean.spread**2 - (mean.center * std.spread) ** 2, 0.0)  # the rest is the spread of the size
            found[number] = Forecast(sqrt(std.center**2 + mean.center**2 + drift), std.spread, std.kind)
    return found


# Views of the micro-world: a recording as panels, which are data, with captions.
#
# A panel holds lines by layer, or unit × layer, for every inspected step. The page draws it with a slider over steps;
# Markdown and print get the last step.

VIEWS = {
    "signal_flow": "How large the activations of two networks are, layer by layer.",
    "gradient_flow": "The backprop signal δ, the activation x that enters, and their product, layer by layer.",
    "gradient_highway": "What reaches each layer from the output, with the skips and without their + x.",
    "one_input": "One input on its way through two networks: unit by layer.",
    "units": "Dead units and update ratios of two networks, layer by layer.",
}
"""What each view shows."""
STEADY = 2.0
"""A size that changes by less than this factor over all layers hardly changes."""


@dataclass(frozen=True)
class PanelLine:
    """One line of a panel: values by place, for every inspection of its arm."""

    name: str
    arm: int
    values: tuple[tuple[float | None, ...], ...]
    faint: bool = False
    """Drawn thin and dashed: beside the main line."""


@dataclass(frozen=True)
class LinePanel:
    """Axes with lines."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[PanelLine, ...]
    log: bool = True
    theory: tuple[TheoryLine, ...] = ()
    """What theory expects before training; shown at that step only."""


@dataclass(frozen=True)
class UnitPanel:
    """One input on its way through an arm: unit × layer, for every inspection."""

    title: str
    arm: int
    values: tuple[Any, ...]


@dataclass(frozen=True)
class View:
    """A figure of the micro-world: its panels, and what to see in them, with this run's numbers."""

    name: str
    title: str
    captions: tuple[str, ...]
    """What to see at each inspected step."""
    panels: tuple[LinePanel, ...] = ()
    unit_panels: tuple[UnitPanel, ...] = ()

    @property
    def caption(self) -> str:
        """What to see at the last step."""
        return self.captions[-1]


def make_views(
    recording: Recording, expected: tuple[Expected | None, ...] = (), inside: tuple[str, ...] = ()
) -> list[View]:
    """The views that the recording has numbers for.

    expected: what theory says of each arm before training.
    inside: where something happens, of each arm: `in the plain network`, `at 30 layers without the skip`.
    """
    known = expected if recording.steps[0] == 0 else ()
    places = inside or tuple(f"in {arm}" for arm in recording.arms)
    found = [
        _signal(recording, places),
        _gradients(recording, known, places),
        _highway(recording, places),
        _journey(recording, places),
        _units(recording, places),
    ]
    return [view for view in found if view is not None]


Moment = tuple[Inspection, Inspection]
"""Both networks at one step."""


def _captions(recording: Recording, say: Callable[[Moment], str]) -> tuple[str, ...]:
    """A caption for each inspected step; a network with a smaller budget stays at its own last one."""
    first, second = recording.inspections
    moments = [(first[min(k, len(first) - 1)], second[min(k, len(second) - 1)]) for k in range(len(recording.steps))]
    return tuple(f"{_when(step)}, {say(moment)}" for step, moment in zip(recording.steps, moments, strict=True))


def _make_line(recording: Recording, arm: int, read: Any, name: str = "", faint: bool = False) -> PanelLine:
    values = tuple(tuple(_number(v) for v in np.atleast_1d(read(one))) for one in recording.inspections[arm])
    return PanelLine(name or recording.arms[arm], arm, values, faint)


def _number(value: Any) -> float | None:
    return float(f"{float(value):.5g}") if np.isfinite(value) else None


def _signal(recording: Recording, places: tuple[str, ...]) -> View:
    panels = tuple(
        LinePanel(
            recording.arms[arm], "layer", "|activation|",
            (
                _make_line(recording, arm, lambda one: one.signal[:, 4], "95 % lie below"),
                _make_line(recording, arm, lambda one: one.signal[:, 3], "75 %", True),
                _make_line(recording, arm, lambda one: one.signal[:, 2], "50 %", True),
                _make_line(recording, arm, lambda one: one.signal[:, 1], "25 %", True),
            ),
        )
        for arm in (0, 1)
    )  # fmt: skip

    def say(moment: Moment) -> str:
        (start, end), other = ((one.signal[0, 4], one.signal[-1, 4]) for one in moment)
        return (
            f"{places[0]}, 95 % of the activations lie below {_short(start)} in the first layer and below "
            f"{_short(end)} in the last; {places[1]}, below {_short(other[0])} and {_short(other[1])}."
        )

    captions = _captions(recording, say)
    return View("signal_flow", "Signal flow", captions, panels)


def _gradients(recording: Recording, expected: tuple[Expected | None, ...], places: tuple[str, ...]) -> View:
    kinds: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (  # reads an inspection, and what theory expects of it
        ("backprop signal δ", "rms of dL/dz", lambda one: one.delta),
        ("activation that enters", "rms of x", lambda one: one.entering),
        ("weight gradient, about δ × x", "rms of dL/dW", lambda one: one.gradient),
    )
    layers = tuple(len(arm[0].delta) for arm in recording.inspections)
    panels = tuple(
        LinePanel(
            title, "layer", label, tuple(_make_line(recording, arm, read) for arm in (0, 1)),
            theory=theory_lines(expected, read, layers),
        )
        for title, label, read in kinds
    )  # fmt: skip

    def say(moment: Moment) -> str:
        one, product = moment[0], "their product, the weight gradient,"
        sizes = (("δ", one.delta), ("x", one.entering), (product, one.gradient))
        parts = [f"{word} {_over(np.asarray(values))}" for word, values in sizes]
        return (
            f"{places[0]}, from the first layer to the last, {join(parts)}. A weight gradient is about δ × x: it can "
            "look alive, or flat, while both of them die."
        )

    captions = _captions(recording, say)
    return View("gradient_flow", "Gradient flow", captions, panels)


def _highway(recording: Recording, places: tuple[str, ...]) -> View | None:
    if any(one.highway is None for arm in recording.inspections for one in arm):
        return None
    chain = LinePanel(
        "chain rule, from the output back", "layer", "largest singular value of ∂out/∂z",
        tuple(_make_line(recording, arm, lambda one: one.highway) for arm in (0, 1))
        + tuple(
            _make_line(recording, arm, lambda one: one.branches, f"{recording.arms[arm]}, without the + x", True)
            for arm in (0, 1) if _carries(recording.inspections[arm][0])
        ),
    )  # fmt: skip
    blocks = LinePanel(
        "every block's own Jacobian", "block", "singular values",
        tuple(_make_line(recording, arm, lambda one: one.gains[:, 1], f"{recording.arms[arm]}, rms") for arm in (0, 1))
        + tuple(
            _make_line(recording, arm, lambda one: one.gains[:, 0], f"{recording.arms[arm]}, largest", True)
            for arm in (0, 1)
        ),
    )  # fmt: skip
    spectrum = LinePanel(
        "end to end", "number, largest first", "singular values of ∂out/∂input",
        tuple(_make_line(recording, arm, lambda one: one.spectrum) for arm in (0, 1)),
    )  # fmt: skip

    def say(moment: Moment) -> str:
        parts = []
        for one, place in zip(moment, places, strict=True):
            assert one.highway is not None
            assert one.branches is not None
            words = f"{_short(one.highway[0])} {place}"
            if _carries(one):
                words += f" ({_short(one.branches[0])} without the + x of every skip)"
            parts.append(words)
        return (
            f"a gradient on its way from the output back to layer 1 is multiplied by at most {join(parts)}: the "
            "largest singular value of the product of all Jacobians on the way."
        )

    captions = _captions(recording, say)
    return View("gradient_highway", "The gradient highway", captions, (chain, blocks, spectrum))


def _carries(one: Inspection) -> bool:
    """Whether a skip's identity term makes a difference."""
    return one.highway is not None and one.branches is not None and not np.allclose(one.highway, one.branches)


def _journey(recording: Recording, places: tuple[str, ...]) -> View:
    panels = tuple(
        UnitPanel(recording.arms[arm], arm, tuple(np.round(one.journey, 6) for one in recording.inspections[arm]))
        for arm in (0, 1)
    )

    def say(moment: Moment) -> str:
        kept = [100 * _share_above(one.journey[-1], 1e-3) for one in moment]
        return (
            f"{kept[0]:.0f} % of the units in the last layer respond to this input (above 0.001) {places[0]}, "
            f"{kept[1]:.0f} % {places[1]}. Every column is a layer, every row a unit."
        )

    captions = _captions(recording, say)
    return View("one_input", "One input, layer by layer", captions, unit_panels=panels)


def _share_above(row: Any, size: float) -> float:
    """Of the units of a layer; a narrow layer's row is filled up with NaN at its end, which is no unit."""
    units = row[: np.flatnonzero(np.isfinite(row))[-1] + 1] if np.isfinite(row).any() else row
    return float(np.mean(np.abs(units) > size))


def _units(recording: Recording, places: tuple[str, ...]) -> View:
    dead = LinePanel(
        "dead units",
        "layer",
        "share",
        tuple(_make_line(recording, arm, lambda one: one.dead) for arm in (0, 1)),
        log=False,
    )
    panels = [dead]
    if any(one.update is not None for arm in recording.inspections for one in arm):
        moved = tuple(_make_line(recording, arm, _update) for arm in (0, 1))
        panels.append(LinePanel("update ratio", "layer", "‖ΔW‖/‖W‖ of the step before", moved))

    def say(moment: Moment) -> str:
        shares = [percent(float(np.mean(one.dead))) for one in moment]
        return (
            f"{shares[0]} of the units {places[0]} and {shares[1]} {places[1]} are dead: their slope is 0 on the "
            "whole batch, so they pass no gradient on and receive none."
        )

    captions = _captions(recording, say)
    return View("units", "Dead units and updates", captions, tuple(panels))


def _update(one: Inspection) -> Any:
    return np.full(len(one.delta), np.nan) if one.update is None else one.update


def _when(step: int) -> str:
    return f"After {counted(step, 'step')}" if step else "Before training"


def _short(value: float) -> str:
    return written(float(value), 2)


def _over(sizes: Any) -> str:
    """What a size does from the first layer to the last, in words."""
    zeros = int(np.count_nonzero(sizes == 0))
    if zeros == len(sizes):
        return "is exactly 0 in every layer"
    found = gain_of(sizes)
    if found is None or found.in_all == 0:
        return f"is exactly 0 in {zeros} of {len(sizes)} layers" if zeros else "has too few layers to tell"
    factor = max(found.in_all, 1 / found.in_all)
    if factor < STEADY:
        return (
            "keeps its size" if written(factor, 2) == "1" else f"hardly changes (by a factor of {written(factor, 2)})"
        )
    return f"{'grows' if found.in_all > 1 else 'falls'} by a factor of {written(factor, 2)}"


# Views as charts of their last step; their tables hold every step.

FAINT: tuple[Dashes, ...] = ((0, (4, 1.5)), (0, (1, 1.2)), (0, (4, 1.2, 1, 1.2)))
"""Dashes of the lines beside a main line."""


@dataclass(frozen=True)
class ViewChart(Panels):
    """The panels of a view at its last step."""

    rows: Rows = ((), [])
    """What the view shows at every step."""

    def table(self) -> Rows:
        """Every step, not only the one that is drawn."""
        return self.rows


def view_chart(view: View, recording: Recording) -> ViewChart:
    """A view at its last step, with the rows of all steps."""
    lasts = [panel.values[-1] for panel in view.unit_panels]
    limit = max((float(np.nanquantile(np.abs(rows), 0.99)) for rows in lasts), default=1.0) or 1.0
    charts: tuple[Chart, ...] = tuple(_line_chart(panel, recording.steps[-1]) for panel in view.panels) + tuple(
        _unit_map(panel, limit) for panel in view.unit_panels
    )
    same = len({chart.y_label for chart in charts}) == 1
    return ViewChart(
        f"{view.title}, {_moment(recording.steps[-1])}",
        charts[0].x_label,
        charts[0].y_label,
        charts,
        same_y=same,
        own_labels=not same,
        finding=view.caption,
        rows=view_rows(view, recording),
    )


def draw_view(view: View, recording: Recording) -> Any:
    """The last step as a matplotlib figure."""
    return draw_one(view_chart(view, recording))


def view_rows(view: View, recording: Recording) -> Rows:
    """Everything that a view shows, at every step: a header and rows."""
    rows: list[tuple[Any, ...]] = []
    for panel in view.panels:
        for line in panel.lines:
            for one, values in zip(recording.inspections[line.arm], line.values, strict=True):
                rows += [(panel.title, line.name, one.step, place, v) for place, v in enumerate(values, 1)]
    if view.panels:
        return ("panel", "line", "step", "place", "value"), rows
    for heat in view.unit_panels:
        for one, layers in zip(recording.inspections[heat.arm], heat.values, strict=True):
            rows += [
                (heat.title, one.step, layer, unit, float(value))
                for layer, row in enumerate(layers, 1)
                for unit, value in enumerate(row, 1)
                if not np.isnan(value)
            ]
    return ("arm", "step", "layer", "unit", "value"), rows


def _moment(step: int) -> str:
    return f"after {counted(step, 'step')}" if step else "at initialization"


def _line_chart(panel: LinePanel, step: int) -> LineChart:
    lines: list[Line] = []
    for line in panel.lines:
        y = np.array([np.nan if v is None else v for v in line.values[-1]], float)
        x = np.arange(1.0, len(y) + 1)
        beside = sum(1 for other in lines if other.faint and stroke(other.style).color == stroke(line.arm).color)
        style = replace(stroke(line.arm), dashes=FAINT[beside % len(FAINT)]) if line.faint else stroke(line.arm)
        lines.append(Line(line.name, x, y, y, y, style, markers=not line.faint, faint=line.faint))
    positive = any((line.y > 0).any() for line in lines)
    theory = tuple(_theory_line(line) for line in panel.theory) if step == 0 else ()
    return LineChart(
        panel.title, panel.x_label, panel.y_label, tuple(lines), log_y=panel.log and positive, whole_x=True,
        theory=theory,
    )  # fmt: skip


def _theory_line(line: TheoryLine) -> Line:
    y, low, high = (
        np.array([np.nan if v is None else v for v in values], float) for values in (line.center, line.low, line.high)
    )
    return Line("theory", np.arange(1.0, len(y) + 1), y, low, high, line.arm, faint=True)


def _unit_map(panel: UnitPanel, limit: float) -> UnitMap:
    return UnitMap(panel.title, "layer", "unit", np.asarray(panel.values[-1], float), limit)

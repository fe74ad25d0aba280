"""Measures by layer: what every group's signal and gradients do on their way through the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from gradlab.analysis.claims.numbers import compare_numbers
from gradlab.analysis.measured import Measured, Profile
from gradlab.analysis.theory import predictions_of
from gradlab.audits.start import gain_of
from gradlab.facts import Gain
from gradlab.report.charts import BoxChart, HeatChart, HeatPanel, Line, LineChart, Points
from gradlab.report.figures.base import MOST_NAMED, Figure, Numbers, band, seeds_note
from gradlab.spec.naming import say_inside
from gradlab.words import capital, counted, join, say_gain, written

FEWEST_MOMENTS = 3
"""Moments of a heat map."""


class LayerFigure(Figure):
    """A measure by layer, one line per group, published numbers and theory beside; a figure declares which."""

    measure: ClassVar[str]
    title: ClassVar[str]
    """Without the moment, which is added."""
    label: ClassVar[str]
    """Of the y axis."""
    what: ClassVar[str]
    """The measure inside a sentence, `the weight gradient`."""
    step: ClassVar[str] = "end"
    log_y: ClassVar[bool] = True
    backwards: ClassVar[bool] = True
    """Whether the caption says how it changes from the last layer to the first, as gradients do."""

    def chart(self, measured: Measured) -> LineChart | None:
        """On the probe batch."""
        if self.measure not in measured.measures:
            return None
        every = (
            _layer_line(measured.profile(self.measure, name, self.step), name, index)
            for index, name in enumerate(measured.group_names)
        )
        lines = tuple(line for line in every if line is not None)
        if not lines:
            return None
        moment = _moment(measured, self.step)
        expected = _theory_lines(measured, self.measure) if moment == "at initialization" else ()
        if self.log_y:
            finding = see_layers(measured, lines, self.what, backwards=self.backwards)
        else:
            finding = see_range(measured, lines, self.what)
        return LineChart(
            f"{self.title}, {moment}",
            "layer",
            self.label,
            lines,
            published_points(measured, self.measure, self.step),
            log_y=self.log_y,
            whole_x=True,
            theory=expected,
            note=seeds_note(measured) + _theory_note(measured, expected),
            finding=finding,
        )


class GradientByLayer(LayerFigure):
    """L2 norm of each layer's weight gradient at the end, on a log axis."""

    name = "gradient_by_layer"
    shows = ("grad_l2@end",)
    rank = 20
    measure, title, label = "grad_l2", "Weight gradient by layer", "‖dL/dW‖₂"
    what = "the weight gradient"


class GradientAtStartByLayer(LayerFigure):
    """‖dL/dW‖ of every layer at initialization: what the architecture and the init do before training does anything."""

    name = "gradient_at_start_by_layer"
    shows = ("grad_l2@start",)
    rank = 21
    measure, title, label = "grad_l2", "Weight gradient by layer", "‖dL/dW‖₂"
    what, step = "the weight gradient", "start"


class MeanGradientByLayer(LayerFigure):
    """Mean |dL/dW| of each layer at the start, on a log axis."""

    name = "mean_gradient_by_layer"
    shows = ("grad_mean_abs",)
    rank = 22
    measure, title, label = "grad_mean_abs", "Mean weight gradient by layer", "mean |dL/dW|"
    what, step = "the mean weight gradient", "start"


class SignalByLayer(LayerFigure):
    """L2 norm of δ = dL/dz of each layer at the start, on a log axis."""

    name = "signal_by_layer"
    shows = ("delta_l2@start",)
    rank = 31
    measure, title, label = "delta_l2", "Backprop signal by layer", "‖δ‖₂"
    what, step = "δ, the error signal on its way back,", "start"


class ActivationStdByLayer(LayerFigure):
    """Standard deviation of what enters the nonlinearity, on a log axis."""

    name = "activation_std_by_layer"
    shows = ("activation_std.pre",)
    rank = 32
    measure, title, label = "activation_std.pre", "Activation spread by layer", "std of Wx + b"
    what, backwards = "the spread of Wx + b", False


class ActivationMeanByLayer(LayerFigure):
    """Mean of what enters the nonlinearity (it can be negative, so a linear axis)."""

    name = "activation_mean_by_layer"
    shows = ("activation_mean.pre",)
    rank = 33
    measure, title, label = "activation_mean.pre", "Activation mean by layer", "mean of Wx + b"
    what, log_y = "the mean of Wx + b", False


class GradientHeatMap(Figure):
    """‖dL/dW‖ by layer and step, median over seeds, one panel per group."""

    name = "gradient_heat_map"
    shows = ("grad_l2",)
    rank = 30

    def chart(self, measured: Measured) -> HeatChart | None:
        """Only where the inside was measured at several moments."""
        if "grad_l2" not in measured.measures:
            return None
        panels = []
        for name in measured.group_names:
            steps = measured.moments(name)
            if len(steps) < FEWEST_MOMENTS:
                continue
            profiles = [measured.profile("grad_l2", name, step).values for step in steps]
            if any(values.size == 0 for values in profiles):
                continue
            columns = [np.median(values, axis=0) for values in profiles]
            panels.append(HeatPanel((name,), np.stack(columns, axis=1), steps, name))
        if not any(((panel.values > 0) & np.isfinite(panel.values)).any() for panel in panels):
            return None
        title = "Weight gradient by layer and step"
        note = "median over seeds" if measured.seeds_done > 1 else "1 seed"
        finding = _see_first_layer(measured, panels)
        return HeatChart(title, "step", "layer", tuple(panels), "‖dL/dW‖₂", note=note, finding=finding)


def _see_first_layer(measured: Measured, panels: list[HeatPanel]) -> str:
    """The first layer from start to end: of each group, or of the two between which all lie."""
    found = [(say_inside(measured.names, p.group), float(p.values[0, 0]), float(p.values[0, -1])) for p in panels]
    ends = [end for end in found if np.isfinite(end[1]) and np.isfinite(end[2])]
    if not ends:
        return ""
    begin = f"In {'the first module' if measured.study.watched else 'layer 1'}, the weight gradient goes"
    if len(measured.group_names) == 1:
        return f"{begin} from {written(ends[0][1])} to {written(ends[0][2])} during training."
    if len(ends) <= MOST_NAMED:
        told = [f"from {written(first)} to {written(last)} {where}" for where, first, last in ends]
        return f"{begin} {join(told)} during training."
    least, *_, most = sorted(ends, key=lambda end: end[2])
    low, high = (f"from {written(first)} to {written(last)} {where}" for where, first, last in (least, most))
    return f"{begin} {low}, the smallest in the end, and {high}, the largest."


class GradientRatioByLayer(Figure):
    """Distribution over draws of the second arm's mean |dL/dW| over the first's, per layer, paired by seed."""

    name = "gradient_ratio_by_layer"
    rank = 23
    shows = ("grad_mean_abs",)

    def chart(self, measured: Measured) -> BoxChart | None:
        """Only for two arms; draws with an exact zero on one side have no ratio and are counted in the note."""
        if len(measured.group_names) != 2 or "grad_mean_abs" not in measured.measures:
            return None
        first, second = measured.group_names
        a, b = (measured.profile("grad_mean_abs", name, "start") for name in (first, second))
        if a.values.shape != b.values.shape or a.values.size == 0:
            return None
        there = (a.values > 0) & (b.values > 0)
        samples = tuple(b.values[there[:, i], i] / a.values[there[:, i], i] for i in range(len(a.layers)))
        if any(len(sample) == 0 for sample in samples):
            return None
        left_out = int((~there.all(1)).sum())
        note = f"{counted(len(a.values), 'draw')}, paired"
        note += f"; {left_out:,} with an exact zero have no ratio" if left_out else ""
        names = [measured.names.group(name) for name in (first, second)]
        medians = [written(float(np.median(samples[place])), 2) for place in (0, -1)]
        finding = (
            f"{names[1]}: mean |dL/dW| is {medians[0]} times that of {names[0]} in layer {a.layers[0]} and "
            f"{medians[1]} times in layer {a.layers[-1]} (medians of {counted(len(a.values), 'draw')})."
        )
        return BoxChart(
            f"How many times larger: {names[1]} / {names[0]}",
            "layer",
            "ratio of mean |dL/dW|",
            tuple(int(layer) for layer in a.layers),
            samples,
            _published_ratio(measured, first, second),
            note=note,
            finding=finding,
        )


def _published_ratio(measured: Measured, first: str, second: str) -> tuple[Points, ...]:
    columns = {points.group: points for points in published_points(measured, "grad_mean_abs", "start")}
    a, b = columns.get(first), columns.get(second)
    if a is None or b is None or not np.array_equal(a.x, b.x):
        return ()
    return (Points("published (one draw)", a.x, b.y / a.y, 0),)


def _layer_line(profile: Profile, label: str, style: int) -> Line | None:
    """A layer profile as a line, without the layers where the measure does not exist."""
    if profile.values.size == 0:
        return None
    center, low, high = band(profile.values)
    there = np.isfinite(center)
    if not there.any():
        return None
    return Line(label, profile.layers[there].astype(float), center[there], low[there], high[there], style, markers=True)


def _theory_lines(measured: Measured, measure: str) -> tuple[Line, ...]:
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


def _theory_note(measured: Measured, lines: tuple[Line, ...]) -> str:
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


# What to see: how sizes change over the layers.


DIP = 10.0
"""How many times lower (or higher) a layer in between must lie than both ends to be told."""


def see_layers(measured: Measured, lines: Sequence[Line], what: str, *, backwards: bool) -> str:
    """First how large a size is in every group at the far end, then what it does over the layers on its way there."""
    found: list[tuple[str, Numbers, Gain]] = []
    for line in lines:
        config = measured.entries[line.group].network
        hidden = line.y[:-1] if config is not None and config.model.head == "linear" else line.y
        ordered = hidden[::-1] if backwards else hidden
        gain = gain_of(ordered) if len(hidden) > 2 else None
        if gain is not None:
            found.append((_place(measured, line.group), ordered, gain))
    if not found:
        return see_range(measured, lines, what)
    first = "the first module" if measured.study.watched else "layer 1"
    end = first if backwards else "the last hidden layer"
    way = f"On its way back to {first}" if backwards else "From the first layer to the last"
    level = _level(found, what, end)
    if len(found) <= MOST_NAMED:
        return f"{level} {way}, it {join([f'{_shape(sizes, gain)} {where}'.strip() for where, sizes, gain in found])}."
    ordered_groups = sorted(found, key=lambda each: _log(each[2].in_all))
    (low, _, least), (high, _, most) = ordered_groups[0], ordered_groups[-1]
    falls = "falls most" if least.in_all < 1 else "grows least"
    grows = "grows most" if most.in_all > 1 else "falls least"
    begin = f"{way}, it {falls} {low}"
    rest = f"It {grows} {high}: it {say_gain(most)}" if not most.even else f"{capital(high)}, it keeps its size"
    return f"{level} {begin}: it {say_gain(least)}. {rest}."


def _level(found: Sequence[tuple[str, Numbers, Gain]], what: str, end: str) -> str:
    """`In layer 1, the weight gradient is 10⁻¹⁴ in the plain network and 5 in the residual network.`"""
    sizes = [(where, float(values[-1])) for where, values, _ in found]
    if len(sizes) <= MOST_NAMED:
        return f"In {end}, {what} is {join([f'{written(size, 2)} {where}'.strip() for where, size in sizes])}."
    (low, least), *_, (high, most) = sorted(sizes, key=lambda each: each[1])
    return f"In {end}, {what} is smallest {low} ({written(least, 2)}) and largest {high} ({written(most, 2)})."


def _shape(sizes: Numbers, gain: Gain) -> str:
    """What a size does over the layers, with a dip or a peak in between."""
    finite = sizes[np.isfinite(sizes) & (sizes > 0)]
    if len(finite) < len(sizes) or len(finite) < 3:
        return say_gain(gain)
    ends = float(min(finite[0], finite[-1])), float(max(finite[0], finite[-1]))
    if finite.min() < ends[0] / DIP:
        return f"dips to {written(float(finite.min()), 2)} in between"
    if finite.max() > ends[1] * DIP:
        return f"peaks at {written(float(finite.max()), 2)} in between"
    return say_gain(gain)


def _place(measured: Measured, group: str) -> str:
    """Where a group's numbers were measured; nothing if it is the only one."""
    return say_inside(measured.names, group) if len(measured.group_names) > 1 else ""


def _log(value: float) -> float:
    return float(np.log(value)) if value > 0 else -np.inf


def see_range(measured: Measured, lines: Sequence[Line], what: str) -> str:
    """Between which values the layers lie, where a size may be negative."""
    found = [
        (_place(measured, line.group), float(values.min()), float(values.max()))
        for line in lines
        if len(values := line.y[np.isfinite(line.y)])
    ]
    if not found:
        return ""
    if len(found) > MOST_NAMED:
        low, high = min(found, key=lambda each: each[1]), max(found, key=lambda each: each[2])
        return (
            f"{capital(what)} is lowest {low[0]} ({written(low[1], 2)}) and highest {high[0]} ({written(high[2], 2)})."
        )
    told = [f"between {written(low, 2)} and {written(high, 2)} {where}".strip() for where, low, high in found]
    return f"Over the layers, {what} lies {join(told)}."

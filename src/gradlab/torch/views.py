"""What a probe and a watch show: tables, the layers of a watched network, figures, and a page in a notebook.

Layers are the modules that own a weight matrix, in the order in which they run. They give any watched network the
figures, tables and claims of a Gradlab network: a module's output is `pre`, the gradient of that output is δ, and dead
units are those of the modules between this layer and the next.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gradlab.errors import InvalidInput
from gradlab.report.charts import HeatChart, HeatPanel, Line, LineChart
from gradlab.report.charts.base import LAYER
from gradlab.report.draw import draw_one
from gradlab.torch.inspection import Recurrence
from gradlab.torch.statistics import ModuleStatistics, Weight
from gradlab.torch.structure import find_spine
from gradlab.trials.outcome import LayerTable

if TYPE_CHECKING:
    from gradlab.torch.diagnosis import Change
    from gradlab.torch.probe import ModuleProbe
    from gradlab.torch.watch import Watch

HIDDEN = ("order", "deltas", "delta_nonfinite", "source")


def tabulate_rows(rows: Iterable[ModuleStatistics]) -> pd.DataFrame:
    """One row per module, in the given order."""
    columns = [column.name for column in fields(ModuleStatistics) if column.name not in HIDDEN]
    return pd.DataFrame([{key: getattr(row, key) for key in columns} for row in rows], columns=columns)


def tabulate_blocks(probe: ModuleProbe) -> pd.DataFrame:
    """Blocks along the network's spine: output, signal, and the extremes of what is inside each."""
    rows = []
    for row in find_spine(probe.model, probe.records):
        inside = [w for w in probe.weights if w.names[0].startswith(f"{row.name}.")]
        children = [m for m in probe.modules.values() if m.name == row.name or m.name.startswith(f"{row.name}.")]
        ratios = [w.update_ratio for w in inside if w.update_ratio is not None and len(w.shape) > 1]
        rows.append(
            {
                "name": row.name,
                "kind": row.kind,
                "modules": len(children),
                "rms": row.rms,
                "spread": row.spread,
                "delta": row.delta,
                "dead": max((m.dead for m in children if not m.idle), default=0.0),
                "grad_l2": _root_of_squares(w.grad_l2 for w in inside),
                "update_ratio": max(ratios, default=None),
            }
        )
    return pd.DataFrame(rows)


def tabulate_time(modules: Iterable[Recurrence]) -> pd.DataFrame:
    """Recurrent modules by time step."""
    rows: list[tuple[str, int, float, float | None]] = []
    for module in modules:
        deltas: Sequence[float | None] = module.delta or [None] * len(module.state)
        rows += [(module.name, time, *pair) for time, pair in enumerate(zip(module.state, deltas, strict=True), 1)]
    return pd.DataFrame(rows, columns=["name", "time", "rms", "delta"])


def tabulate_weights(weights: Iterable[Weight]) -> pd.DataFrame:
    """One row per parameter tensor."""
    columns = ("shape", "grad_mean_abs", "grad_l2", "weight_l2", "update_ratio", "moved", "trainable", "held")
    return pd.DataFrame(
        [{"name": " = ".join(weight.names), **{key: getattr(weight, key) for key in columns}} for weight in weights]
    )


def _root_of_squares(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return math.sqrt(sum(value**2 for value in present)) if present else None


# ---------------------------------------------------------------------- layers


@dataclass(frozen=True)
class ProbedLayer:
    """One module with weights, and its measures."""

    name: str
    measures: Mapping[str, float]


def find_layers(probe: ModuleProbe) -> list[ProbedLayer]:
    """Return the layers of a probed network."""
    rows, owned = list(probe.modules.values()), _group_weights(probe)
    places = [place for place, row in enumerate(rows) if any(len(w.shape) > 1 for w in owned.get(row.name, ()))]
    layers = []
    for place, until in zip(places, [*places[1:], len(rows)], strict=True):
        row = rows[place]
        layers.append(ProbedLayer(row.name, dict(_measure_layer(row, owned[row.name], rows[place + 1 : until]))))
    return layers


def layer_table(moments: Sequence[tuple[int, ModuleProbe]]) -> LayerTable:
    """Return the layers at several steps as a layer table; layer 1 is the first that ran at the first moment."""
    numbers: dict[str, int] = {}
    rows: list[tuple[int, int, str, float]] = []
    for step, probe in moments:
        for layer in find_layers(probe):
            number = numbers.setdefault(layer.name, len(numbers) + 1)
            rows += [(step, number, measure, value) for measure, value in layer.measures.items()]
    steps, layers, measures, values = zip(*rows, strict=True) if rows else ((), (), (), ())
    return LayerTable(np.array(steps, np.int64), np.array(layers, np.int64), tuple(measures), np.array(values, float))


def describe_moment(step: int, probe: ModuleProbe) -> dict[str, Any]:
    """One probed step for the file of a watch: its loss and its layers."""
    layers = find_layers(probe)
    rows = [[number, *pair] for number, layer in enumerate(layers, 1) for pair in layer.measures.items()]
    return {"step": step, "loss": probe.loss, "names": [layer.name for layer in layers], "layers": rows}


def _group_weights(probe: ModuleProbe) -> dict[str, list[Weight]]:
    """Map each module to its parameters; those of a module that was never called belong to its parent."""
    owned: dict[str, list[Weight]] = {}
    for weight in probe.weights:
        owner = weight.names[0].rpartition(".")[0] or "(model)"
        while owner not in probe.modules and "." in owner:
            owner = owner.rpartition(".")[0]
        owned.setdefault(owner, []).append(weight)
    return owned


def _measure_layer(
    row: ModuleStatistics, weights: Sequence[Weight], after: Sequence[ModuleStatistics]
) -> Iterator[tuple[str, float]]:
    matrices = [weight for weight in weights if len(weight.shape) > 1]
    biases = [weight for weight in weights if len(weight.shape) < 2 and weight.names[0].endswith("bias")]
    # what follows in the same shape is the layer's nonlinearity; functional ones are not among the modules
    activations = [module for module in after if module.shape == row.shape and not module.idle]
    measures = {
        "grad_l2": _root_of_squares(weight.grad_l2 for weight in matrices),
        "grad_mean_abs": _mean_abs(matrices),
        "bias_grad_l2": _root_of_squares(weight.grad_l2 for weight in biases),
        "update_ratio": _update_ratio(matrices),
        "activation_mean.pre": row.mean,
        "activation_std.pre": row.std,
        "dead_share": max((module.dead for module in activations), default=None),
        "delta_rms": row.delta,
        "delta_l2": None if row.delta is None else row.delta * math.sqrt(math.prod(row.shape)),
    }
    return ((name, value) for name, value in measures.items() if value is not None)


def _mean_abs(weights: Sequence[Weight]) -> float | None:
    present = [(w.grad_mean_abs, w.entries) for w in weights if w.grad_mean_abs is not None]
    return sum(mean * size for mean, size in present) / sum(size for _, size in present) if present else None


def _update_ratio(weights: Sequence[Weight]) -> float | None:
    """‖ΔW‖/‖W‖ over all matrices of a layer."""
    steps = _root_of_squares(None if w.update_ratio is None else w.update_ratio * w.weight_l2 for w in weights)
    size = _root_of_squares(weight.weight_l2 for weight in weights)
    return None if steps is None or not size else steps / size


# ---------------------------------------------------------------------- figures

MEASURES = {
    "delta": "backprop signal δ (rms)",
    "rms": "activation (rms)",
    "std": "activation (std)",
    "dead": "dead units",
}


def probe_figure(probe: ModuleProbe, ax: Any = None) -> Any:
    """Draw the root mean squares of activations and of the backprop signal, module by module."""
    seen = sorted((module for module in probe.modules.values() if not module.idle), key=lambda module: module.order)
    series: dict[str, Iterable[float | None]] = {
        "activations": [module.rms for module in seen],
        "backprop signal δ": [module.delta for module in seen],
    }
    title, note = f"Inside {type(probe.model).__name__}", "modules in the order in which they run"
    return _draw_by_module(title, "root mean square", series, [module.name for module in seen], ax, note)


def change_figure(change: Change, ax: Any = None) -> Any:
    """Draw the backprop signal by module, before a fix and after it."""
    table = change.table()
    series = {label: list(table[f"delta_{label}"]) for label in ("before", "after")}
    title = "Backprop signal before and after"
    return _draw_by_module(title, "δ (root mean square)", series, list(table["name"]), ax)


def _draw_by_module(
    title: str, label: str, series: Mapping[str, Iterable[float | None]], names: list[str], ax: Any, note: str = ""
) -> Any:
    """Draw values module by module, as far as they are known."""
    lines = []
    for index, (name, numbers) in enumerate(series.items()):
        values = np.array(list(numbers), np.float64)  # None becomes NaN
        known = np.flatnonzero(np.isfinite(values))
        if len(known):
            lines.append(
                Line(
                    name,
                    (known + 1).astype(np.float64),
                    values[known],
                    values[known],
                    values[known],
                    index,
                    markers=True,
                )
            )
    chart = LineChart(title, LAYER, label, tuple(lines), log_y=True, whole_x=True, note=note)
    return draw_one(chart.with_layers(names), ax)


def watch_figure(watch: Watch, measure: str, ax: Any = None) -> Any:
    """Draw a measure over modules and steps as a heat map, or a scalar over steps."""
    name, curves = type(watch._model).__name__, watch.curves()
    if measure in curves:
        values = np.array(list(curves[measure].values()))
        finite = np.isfinite(values)
        steps, values = np.array(list(curves[measure]), float)[finite], values[finite]
        line = Line(name, steps, values, values, values, 0, markers=len(values) < 50)
        positive = bool(len(values)) and bool((values > 0).all()) and values.max() > 20 * values.min()
        return draw_one(LineChart(f"{measure} by step", "step", measure, (line,), log_y=positive, whole_x=True), ax)
    if measure not in MEASURES:
        accepted = ", ".join([*MEASURES, *curves])
        raise InvalidInput(f"{measure!r} is not a measure of this watch; accepted: {accepted}")
    idle = {module.name for moment in watch.moments for module in moment.probe.modules.values() if module.idle}
    table = watch.table()
    rows = table[(table.measure == measure) & ~table.module.isin(idle)]
    frame = rows.pivot_table(index="module", columns="step", values="value", sort=False, dropna=False)
    panel = HeatPanel((name,), frame.to_numpy(), tuple(int(step) for step in frame.columns))
    title = f"{MEASURES[measure][0].upper()}{MEASURES[measure][1:]} by module and step"
    return draw_one(HeatChart(title, "step", LAYER, (panel,), MEASURES[measure]).with_layers(list(frame.index)), ax)


# How a probe and a watch look in a notebook: the diagnosis, a curve, the table folded by block.


def probe_as_html(probe: ModuleProbe) -> str:
    """Diagnosis, activations and δ by module, and the blocks; all modules below, folded."""
    if not probe.modules:
        return f"<p>{escape(repr(probe))}</p>{probe.diagnose()._repr_html_()}"
    parts = [f"<p><b>{escape(repr(probe)[1:-1])}</b></p>", probe.diagnose()._repr_html_(), as_picture(probe.figure())]
    parts += [as_table(probe.blocks()), fold("All modules", probe.table()), fold("Parameters", probe.parameters())]
    return "".join(parts)


def watch_as_html(watch: Watch) -> str:
    """Diagnosis of all steps, the loss, δ by module and step; the blocks at the last probed step below, folded."""
    head = f"<p><b>{escape(repr(watch)[1:-1])}</b></p>"
    if not watch.moments:
        return head
    parts = [head, watch.diagnose()._repr_html_()]
    if len(watch.curves().get("loss", {})) > 1:
        parts.append(as_picture(watch.figure("loss")))
    last = watch.moments[-1]
    parts += [as_picture(watch.figure()), fold(f"Blocks at step {last.step:,}", last.probe.blocks())]
    return "".join([*parts, fold("Parameters at all probed steps", watch.parameters())])


def as_table(frame: pd.DataFrame) -> str:
    """Return a table that scrolls if it is wider than the page."""
    return f'<div style="overflow-x:auto">{frame.to_html(index=False, float_format="{:.3g}".format)}</div>'


def fold(title: str, frame: pd.DataFrame) -> str:
    """Return a table that is closed at first."""
    return f"<details><summary>{escape(title)}</summary>{as_table(frame)}</details>"


def as_picture(figure: Any) -> str:
    """Return a figure as an image that needs no file, and close it."""
    import matplotlib.pyplot as plt

    drawn = getattr(figure, "figure", figure)
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=80)
    plt.close(drawn)
    return f'<img style="max-width:100%" src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'

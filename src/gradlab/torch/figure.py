"""The figures of a probe and of a watch."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.errors import InvalidInput
from gradlab.report.charts import HeatChart, HeatPanel, Line, LineChart
from gradlab.report.charts.base import LAYER
from gradlab.report.draw import draw_one

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.torch.diagnosis import Change
    from gradlab.torch.probe import ModuleProbe
    from gradlab.torch.watch import Watch


MEASURES = {
    "delta": "backprop signal δ (rms)",
    "rms": "activation (rms)",
    "std": "activation (std)",
    "dead": "dead units",
}


def probe_figure(probe: ModuleProbe, ax: Any = None) -> Any:
    """Draw the root mean squares of activations and of the backprop signal, module by module."""
    seen = sorted((each for each in probe.modules.values() if not each.idle), key=lambda each: each.order)
    places = np.arange(1, len(seen) + 1, dtype=float)
    activations = np.array([each.rms for each in seen])
    deltas = np.array([np.nan if each.delta is None else each.delta for each in seen])
    lines = []
    for index, (label, values) in enumerate((("activations", activations), ("backprop signal δ", deltas))):
        finite = np.isfinite(values)
        if finite.any():
            y = values[finite]
            lines.append(Line(label, places[finite], y, y, y, index, markers=True))
    chart = LineChart(
        f"Inside {type(probe.model).__name__}",
        LAYER,
        "root mean square",
        tuple(lines),
        log_y=True,
        whole_x=True,
        note="modules in the order in which they run",
    )
    return draw_one(chart.with_layers([each.name for each in seen]), ax)


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
    idle = {each.name for moment in watch.moments for each in moment.probe.modules.values() if each.idle}
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


def change_figure(change: Change, ax: Any = None) -> Any:
    """Draw the backprop signal by module, before a fix and after it."""
    table, lines = change.table(), []
    for index, label in enumerate(("before", "after")):
        deltas = table[f"delta_{label}"].to_numpy(float)
        finite = np.isfinite(deltas)
        if finite.any():
            places, values = np.arange(1.0, len(deltas) + 1)[finite], deltas[finite]
            lines.append(Line(label, places, values, values, values, index, markers=True))
    chart = LineChart(
        "Backprop signal before and after", LAYER, "δ (root mean square)", tuple(lines), log_y=True, whole_x=True
    )
    return draw_one(chart.with_layers(list(table["name"])), ax)

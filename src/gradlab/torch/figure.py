"""The figures of a probe and of a watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.errors import InvalidInput
from gradlab.report.charts import HeatChart, HeatPanel, Line, LineChart
from gradlab.report.draw import draw_one

if TYPE_CHECKING:
    from gradlab.torch.results import ProbeResults
    from gradlab.torch.watching import Watch

MEASURES = {
    "delta": "backprop signal δ (rms)",
    "rms": "activation (rms)",
    "std": "activation (std)",
    "dead": "dead units",
}


def probe_figure(probe: ProbeResults, ax: Any = None) -> Any:
    """Draw the root mean squares of activations and of the backprop signal, module by module."""
    seen = sorted(probe.modules.values(), key=lambda each: each.order)
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
        "module, in the order in which they run",
        "root mean square",
        tuple(lines),
        log_y=True,
        whole_x=True,
        note=f"{seen[0].name} … {seen[-1].name}" if seen else "",
    )
    return draw_one(chart, ax)


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
    frame = watch.table().query("measure == @measure").pivot_table(index="layer", columns="step", values="value")
    panel = HeatPanel((name,), frame.to_numpy(), tuple(int(step) for step in frame.columns))
    title = f"{MEASURES[measure][0].upper()}{MEASURES[measure][1:]} by module and step"
    return draw_one(HeatChart(title, "step", "module", (panel,), MEASURES[measure]), ax)

"""The figures of a probe and of a watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.errors import InvalidInput
from gradlab.report.charts import HeatChart, HeatPanel, Line, LineChart
from gradlab.report.draw import draw_one
from gradlab.report.layer_names import LAYER

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

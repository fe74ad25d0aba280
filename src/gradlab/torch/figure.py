"""The figure of a probe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.report.charts import Line, LineChart
from gradlab.report.draw import draw_one

if TYPE_CHECKING:
    from gradlab.torch.probing import ModuleProbe


def probe_figure(probe: ModuleProbe, ax: Any = None) -> Any:
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

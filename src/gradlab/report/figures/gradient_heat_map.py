"""Weight gradients over layers and training, as a heat map."""

from __future__ import annotations

import numpy as np

from gradlab.analysis.axis import words
from gradlab.analysis.measured import Measured
from gradlab.report.charts import HeatChart, HeatPanel
from gradlab.report.figures.base import Figure

MEASURE, MOST_PANELS, FEWEST_MOMENTS = "grad_l2", 4, 3


class GradientHeatMap(Figure):
    """‖dL/dW‖ by layer and step, median over seeds, one panel per group."""

    name = "gradient_heat_map"
    shows = ("grad_l2",)
    rank = 30

    def chart(self, measured: Measured) -> HeatChart | None:
        """Only where the inside was measured at several moments; the deepest groups if there are many."""
        if MEASURE not in measured.measures:
            return None
        chosen = sorted(measured.group_names, key=lambda name: -measured.layer_count(name))[:MOST_PANELS]
        panels = []
        for name in [name for name in measured.group_names if name in chosen]:
            steps = measured.moments(name)
            if len(steps) < FEWEST_MOMENTS:
                continue
            profiles = [measured.profile(MEASURE, name, step).values for step in steps]
            if any(values.size == 0 for values in profiles):
                continue
            columns = [np.median(values, axis=0) for values in profiles]
            panels.append(HeatPanel(tuple(words(measured, name)), np.stack(columns, axis=1), steps))
        if not any(((panel.values > 0) & np.isfinite(panel.values)).any() for panel in panels):
            return None
        title = "Weight gradient by layer and step"
        return HeatChart(title, "step", "layer", tuple(panels), "‖dL/dW‖₂", note="median over seeds")

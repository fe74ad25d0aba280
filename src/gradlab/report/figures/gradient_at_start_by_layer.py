"""The weight gradient by layer before training."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import LineChart
from gradlab.report.figures.base import Figure, layer_chart


class GradientAtStartByLayer(Figure):
    """‖dL/dW‖ of every layer at initialization: what the architecture and the init do before training does anything."""

    name = "gradient_at_start_by_layer"
    shows = ("grad_l2@start",)
    rank = 21

    def chart(self, measured: Measured) -> LineChart | None:
        """One line per group, log axis."""
        return layer_chart(
            measured, "grad_l2", "Weight gradient by layer", "‖dL/dW‖₂", what="the weight gradient", step="start"
        )

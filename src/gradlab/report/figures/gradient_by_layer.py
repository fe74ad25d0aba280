"""Weight gradient by layer, after training."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import LineChart
from gradlab.report.figures.base import Figure, layer_chart


class GradientByLayer(Figure):
    """L2 norm of each layer's weight gradient at the end, on a log axis."""

    name = "gradient_by_layer"
    shows = ("grad_l2@end",)
    rank = 20

    def chart(self, measured: Measured) -> LineChart | None:
        """On the probe batch."""
        return layer_chart(measured, "grad_l2", "Weight gradient by layer", "‖dL/dW‖₂", what="the weight gradient")

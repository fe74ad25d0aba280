"""Mean absolute weight gradient by layer, at initialization."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import LineChart
from gradlab.report.figures.base import Figure, layer_chart


class MeanGradientByLayer(Figure):
    """Mean |dL/dW| of each layer at the start, on a log axis."""

    name = "mean_gradient_by_layer"
    rank = 22
    shows = ("grad_mean_abs",)

    def chart(self, measured: Measured) -> LineChart | None:
        """On the probe batch."""
        title = "Mean weight gradient by layer"
        return layer_chart(
            measured, "grad_mean_abs", title, "mean |dL/dW|", what="the mean weight gradient", step="start"
        )

"""Mean of the activations by layer, after training."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import LineChart
from gradlab.report.figures.base import Figure, layer_chart


class ActivationMeanByLayer(Figure):
    """Mean of what enters the nonlinearity (it can be negative, so a linear axis)."""

    name = "activation_mean_by_layer"
    rank = 33
    shows = ("activation_mean.pre",)

    def chart(self, measured: Measured) -> LineChart | None:
        """On the probe batch, before the nonlinearity."""
        title = "Activation mean by layer"
        return layer_chart(
            measured, "activation_mean.pre", title, "mean of Wx + b", what="the mean of Wx + b", log_y=False
        )

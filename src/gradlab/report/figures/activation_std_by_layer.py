"""Spread of the activations by layer, after training."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import LineChart
from gradlab.report.figures.base import Figure, layer_chart


class ActivationStdByLayer(Figure):
    """Standard deviation of what enters the nonlinearity, on a log axis."""

    name = "activation_std_by_layer"
    rank = 32
    shows = ("activation_std.pre",)

    def chart(self, measured: Measured) -> LineChart | None:
        """On the probe batch, before the nonlinearity."""
        title, what = "Activation spread by layer", "the spread of Wx + b"
        return layer_chart(measured, "activation_std.pre", title, "std of Wx + b", what=what, backwards=False)

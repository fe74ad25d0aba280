"""Backprop signal by layer, at initialization: where vanishing shows before any training."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import LineChart
from gradlab.report.figures.base import Figure, layer_chart


class SignalByLayer(Figure):
    """L2 norm of δ = dL/dz of each layer at the start, on a log axis."""

    name = "signal_by_layer"
    shows = ("delta_l2@start",)
    rank = 31

    def chart(self, measured: Measured) -> LineChart | None:
        """On the probe batch."""
        return layer_chart(measured, "delta_l2", "Backprop signal by layer", "‖δ‖₂", what="δ", step="start")

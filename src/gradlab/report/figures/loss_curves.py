"""Held-out loss over the epochs."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import LineChart
from gradlab.report.figures.base import Figure, epoch_chart

METRICS = ("validation_loss", "test_loss")


class LossCurves(Figure):
    """Validation loss (or test) after every epoch, with a band over seeds."""

    name = "loss_curves"
    shows = ("test_loss", "validation_loss")
    rank = 13

    def chart(self, measured: Measured) -> LineChart | None:
        """One line per group, log axis."""
        return epoch_chart(measured, METRICS, log_y=True)

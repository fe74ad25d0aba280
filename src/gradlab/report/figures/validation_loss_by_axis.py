"""Validation loss against the study's main axis."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import Chart
from gradlab.report.figures.base import Figure, axis_chart


class ValidationLossByAxis(Figure):
    """Loss on the validation data, every seed a dot."""

    name = "validation_loss_by_axis"
    shows = ("validation_loss",)
    rank = 9

    def chart(self, measured: Measured) -> Chart | None:
        """Only where there are test data too: else the loss figure shows it already."""
        if "test_loss" not in measured.metrics:
            return None
        return axis_chart(measured, "validation_loss", "validation loss", what="the validation loss", log_y=True)

"""Validation accuracy against the study's main axis."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import Chart
from gradlab.report.figures.base import Figure, axis_chart


class ValidationAccuracyByAxis(Figure):
    """Accuracy on the validation data, every seed a dot."""

    name = "validation_accuracy_by_axis"
    shows = ("validation_accuracy",)
    rank = 8

    def chart(self, measured: Measured) -> Chart | None:
        """Only where there are test data too: else the accuracy figure shows it already."""
        if "test_accuracy" not in measured.metrics:
            return None
        classes = measured.plan.groups[0].classes
        levels = ((1 / classes, "chance"),) if classes else ()
        return axis_chart(measured, "validation_accuracy", "validation accuracy", levels=levels)

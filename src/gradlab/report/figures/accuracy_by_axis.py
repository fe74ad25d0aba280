"""Accuracy against the axis that the study sweeps."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import Chart
from gradlab.report.figures.base import Figure, axis_chart


class AccuracyByAxis(Figure):
    """Test accuracy (or validation, or training) against the study's main axis; every seed is shown."""

    name = "accuracy_by_axis"
    shows = ("test_accuracy", "validation_accuracy", "train_accuracy", "collapsed")
    rank = 5

    def chart(self, measured: Measured) -> Chart | None:
        """With the level of chance."""
        for metric in ("test_accuracy", "validation_accuracy", "train_accuracy"):
            if metric in measured.metrics:
                classes = measured.plan.groups[0].classes
                levels = ((1 / classes, "chance"),) if classes else ()
                return axis_chart(measured, metric, metric.replace("_", " "), levels=levels)
        return None

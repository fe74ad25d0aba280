"""Accuracy over the epochs."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import LineChart
from gradlab.report.figures.base import Figure, epoch_chart

METRICS = ("test_accuracy", "validation_accuracy", "train_accuracy")


class AccuracyCurves(Figure):
    """Test accuracy (or validation, or training) after every epoch, with a band over seeds."""

    name = "accuracy_curves"
    shows = (
        "test_accuracy",
        "validation_accuracy",
        "train_accuracy",
        "collapsed",
        "epochs_to_target",
        "steps_to_target",
    )
    rank = 12

    def chart(self, measured: Measured) -> LineChart | None:
        """One line per group."""
        return epoch_chart(measured, METRICS, log_y=False)

"""Training time per epoch against the axis that the study sweeps."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import Chart
from gradlab.report.figures.base import Figure, axis_chart


class RuntimeByAxis(Figure):
    """Seconds per epoch (training only) against the study's main axis; every seed is shown."""

    name = "runtime_by_axis"
    shows = ("seconds_per_epoch",)
    rank = 40

    def chart(self, measured: Measured) -> Chart | None:
        """On a log axis: times differ by ratios."""
        return axis_chart(
            measured, "seconds_per_epoch", "seconds per epoch", what="the time of an epoch in seconds", log_y=True
        )

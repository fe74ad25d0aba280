"""Loss against the axis that the study sweeps."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import Chart
from gradlab.report.figures.base import Figure, axis_chart


class LossByAxis(Figure):
    """Test loss (or validation, or final training loss) against the study's main axis; every seed is shown."""

    name = "loss_by_axis"
    shows = ("test_loss", "validation_loss", "final_loss")
    rank = 6

    def chart(self, measured: Measured) -> Chart | None:
        """On a log axis."""
        for metric in ("test_loss", "validation_loss", "final_loss"):
            if metric in measured.metrics:
                name = metric.replace("_", " ")
                return axis_chart(measured, metric, name, what=f"the {name}", log_y=True)
        return None

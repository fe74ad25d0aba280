"""A curve that training code of the user's own returned."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import LineChart
from gradlab.report.figures.accuracy_curves import METRICS as ACCURACIES
from gradlab.report.figures.base import Figure, epoch_chart
from gradlab.report.figures.loss_curves import METRICS as LOSSES
from gradlab.tell.answers import headline_of

SHOWN = ("loss", *ACCURACIES, *LOSSES)
"""What other figures show."""


class ReturnedCurves(Figure):
    """A curve of the user's own, one line per arm: the headline's, or else the first."""

    name = "returned_curves"
    rank = 14

    def chart(self, measured: Measured) -> LineChart | None:
        """Only of hand-written code: the lab's own curves have figures of their own."""
        if not measured.plan.own_code:
            return None
        names = [name for name in measured.curve_names if name not in SHOWN]
        headline = headline_of(measured)
        if headline is not None and headline.metric in names:
            names = [headline.metric]
        return epoch_chart(measured, tuple(names[:1]), log_y=bool(names) and measured.metric(names[0]).kind == "loss")

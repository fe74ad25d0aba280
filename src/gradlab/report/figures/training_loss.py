"""Training loss over the steps."""

from __future__ import annotations

from gradlab.analysis.measured import Measured
from gradlab.report.charts import Line, LineChart
from gradlab.report.figures.base import Figure, band, levels_of, seeds_note, side_by_side, thinned
from gradlab.report.seeing import see_ends


class TrainingLoss(Figure):
    """Training loss of every step, on a log axis."""

    name = "training_loss"
    shows = ("final_loss", "initial_loss", "last_loss", "train_loss")
    rank = 10

    def chart(self, measured: Measured) -> LineChart | None:
        """One line per group; a diverged trial's curve ends where it diverged."""
        lines = []
        for index, name in enumerate(measured.group_names):
            curves = [curve for curve in measured.curve("loss", name) if len(curve[0])]
            if curves:
                steps, table = side_by_side(curves)
                lines.append(Line(name, *thinned(steps, *band(table)), index))
        if not lines:
            return None
        return LineChart(
            "Training loss",
            "step",
            "loss",
            tuple(lines),
            log_y=True,
            levels=levels_of(measured, "final_loss"),
            note=seeds_note(measured),
            whole_x=True,
            finding=see_ends(measured, lines, "Training loss"),
        )

"""Training loss over the steps."""

from __future__ import annotations

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.report.charts import Line, LineChart
from gradlab.report.figures.base import MOST_LINES, Figure, band, levels_of, seeds_note, thinned


class TrainingLoss(Figure):
    """Training loss of every step, on a log axis."""

    name = "training_loss"
    shows = ("final_loss", "initial_loss", "last_loss", "train_loss")
    rank = 10

    def chart(self, measured: Measured) -> LineChart | None:
        """One line per group; a diverged trial's curve ends where it diverged."""
        lines = []
        for index, name in enumerate(measured.group_names[:MOST_LINES]):
            curves = [values for _, values in measured.curve("loss", name) if len(values)]
            if not curves:
                continue
            longest = max(map(len, curves))
            table = np.full((len(curves), longest), np.nan)
            for row, values in zip(table, curves, strict=True):
                row[: len(values)] = values
            centre, low, high = band(table)
            lines.append(Line(name, *thinned(np.arange(1.0, longest + 1), centre, low, high), index))
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
        )

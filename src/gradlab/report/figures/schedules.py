"""The learning rate of every step, as it was applied."""

from __future__ import annotations

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.optim.schedules import Horizon, learning_rates
from gradlab.report.charts import Line, LineChart
from gradlab.report.figures.base import Figure
from gradlab.spec.numerals import written
from gradlab.spec.paths import label

MOST_POINTS = 2000


class Schedules(Figure):
    """Learning rate over the steps, one line per distinct schedule of the study."""

    name = "schedules"
    rank = 48

    def chart(self, measured: Measured) -> LineChart | None:
        """Only where groups differ in it."""
        catalog = measured.plan.catalog
        lines: dict[str, Line] = {}
        for planned in measured.plan.groups:
            if planned.network is None or planned.cost.steps == 0:
                continue
            train, cost = planned.config.train, planned.cost
            if train.schedule.build(catalog).reaction(train.lr) is not None:
                continue  # its rates follow from training, trial by trial
            words = f"{label(train.schedule.model_dump(mode='json'))}, lr {train.lr:g}, {cost.steps:,} steps"
            if words in lines:
                continue
            horizon = Horizon(cost.steps, cost.steps_per_epoch)
            rates = learning_rates(train.schedule.build(catalog), train.lr, train.warmup, horizon)
            chosen = np.unique(np.linspace(0, len(rates) - 1, MOST_POINTS).astype(int))
            y = rates[chosen]
            lines[words] = Line(words, chosen + 1.0, y, y, y, len(lines))
        if len(lines) < 2:
            return None
        starts, ends = ([float(line.y[place]) for line in lines.values()] for place in (0, -1))
        finding = f"The {len(lines)} schedules start {_say_span(starts)} and end {_say_span(ends)}."
        shown = tuple(lines.values())
        return LineChart("Learning rate as applied", "step", "learning rate", shown, whole_x=True, finding=finding)


def _say_span(values: list[float]) -> str:
    low, high = written(min(values)), written(max(values))
    return f"at {low}" if low == high else f"between {low} and {high}"

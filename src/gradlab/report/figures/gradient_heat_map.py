"""Weight gradients over layers and training, as a heat map."""

from __future__ import annotations

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.report.charts import HeatChart, HeatPanel
from gradlab.report.figures.base import Figure
from gradlab.spec.naming import join, say_inside
from gradlab.spec.numerals import written

MEASURE, FEWEST_MOMENTS = "grad_l2", 3
MOST_NAMED = 4


class GradientHeatMap(Figure):
    """‖dL/dW‖ by layer and step, median over seeds, one panel per group."""

    name = "gradient_heat_map"
    shows = ("grad_l2",)
    rank = 30

    def chart(self, measured: Measured) -> HeatChart | None:
        """Only where the inside was measured at several moments."""
        if MEASURE not in measured.measures:
            return None
        panels = []
        for name in measured.group_names:
            steps = measured.moments(name)
            if len(steps) < FEWEST_MOMENTS:
                continue
            profiles = [measured.profile(MEASURE, name, step).values for step in steps]
            if any(values.size == 0 for values in profiles):
                continue
            columns = [np.median(values, axis=0) for values in profiles]
            panels.append(HeatPanel((name,), np.stack(columns, axis=1), steps, name))
        if not any(((panel.values > 0) & np.isfinite(panel.values)).any() for panel in panels):
            return None
        title = "Weight gradient by layer and step"
        note = "median over seeds" if measured.seeds_done > 1 else "1 seed"
        finding = _finding(measured, panels)
        return HeatChart(title, "step", "layer", tuple(panels), "‖dL/dW‖₂", note=note, finding=finding)


def _finding(measured: Measured, panels: list[HeatPanel]) -> str:
    """The first layer from start to end: of each group, or of the two between which all lie."""
    found = [(say_inside(measured.names, p.group), float(p.values[0, 0]), float(p.values[0, -1])) for p in panels]
    ends = [end for end in found if np.isfinite(end[1]) and np.isfinite(end[2])]
    if not ends:
        return ""
    begin = f"In {'the first module' if measured.study.watched else 'layer 1'}, the weight gradient goes"
    if len(measured.group_names) == 1:
        return f"{begin} from {written(ends[0][1])} to {written(ends[0][2])} during training."
    if len(ends) <= MOST_NAMED:
        told = [f"from {written(first)} to {written(last)} {where}" for where, first, last in ends]
        return f"{begin} {join(told)} during training."
    least, *_, most = sorted(ends, key=lambda end: end[2])
    low, high = (f"from {written(first)} to {written(last)} {where}" for where, first, last in (least, most))
    return f"{begin} {low}, the smallest in the end, and {high}, the largest."

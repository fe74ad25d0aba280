"""How much larger one arm's gradients are, draw by draw."""

from __future__ import annotations

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.report.charts import BoxChart, Points
from gradlab.report.figures.base import Figure, published_points
from gradlab.spec.numerals import counted, written

MEASURE = "grad_mean_abs"


class GradientRatioByLayer(Figure):
    """Distribution over draws of the second arm's mean |dL/dW| over the first's, per layer, paired by seed."""

    name = "gradient_ratio_by_layer"
    rank = 23
    shows = ("grad_mean_abs",)

    def chart(self, measured: Measured) -> BoxChart | None:
        """Only for two arms; draws with an exact zero on one side have no ratio and are counted in the note."""
        if len(measured.group_names) != 2 or MEASURE not in measured.measures:
            return None
        first, second = measured.group_names
        a, b = (measured.profile(MEASURE, name, "start") for name in (first, second))
        if a.values.shape != b.values.shape or a.values.size == 0:
            return None
        there = (a.values > 0) & (b.values > 0)
        samples = tuple(b.values[there[:, i], i] / a.values[there[:, i], i] for i in range(len(a.layers)))
        if any(len(sample) == 0 for sample in samples):
            return None
        left_out = int((~there.all(1)).sum())
        note = f"{counted(len(a.values), 'draw')}, paired"
        note += f"; {left_out:,} with an exact zero have no ratio" if left_out else ""
        names = [measured.names.group(name) for name in (first, second)]
        medians = [written(float(np.median(samples[place])), 2) for place in (0, -1)]
        finding = (
            f"{names[1]}: mean |dL/dW| is {medians[0]} times that of {names[0]} in layer {a.layers[0]} and "
            f"{medians[1]} times in layer {a.layers[-1]} (medians of {counted(len(a.values), 'draw')})."
        )
        return BoxChart(
            f"How many times larger: {names[1]} / {names[0]}",
            "layer",
            "ratio of mean |dL/dW|",
            tuple(int(layer) for layer in a.layers),
            samples,
            _published_ratio(measured, first, second),
            note=note,
            finding=finding,
        )


def _published_ratio(measured: Measured, first: str, second: str) -> tuple[Points, ...]:
    columns = {points.group: points for points in published_points(measured, MEASURE, "start")}
    a, b = columns.get(first), columns.get(second)
    if a is None or b is None or not np.array_equal(a.x, b.x):
        return ()
    return (Points("published (one draw)", a.x, b.y / a.y, 0),)

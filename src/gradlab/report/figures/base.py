"""What a figure is: a chart computed from what was measured, or nothing where it does not apply."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.measured import Measured, Profile
from gradlab.analysis.published import beside
from gradlab.parts import Part
from gradlab.report.charts import Chart, Line, LineChart, Points

Numbers = NDArray[np.float64]
MOST_LINES = 8
FEW_SEEDS = 20


class Figure(Part):
    """Compute, then draw: `chart` returns data."""

    part: ClassVar[str] = "figure"
    rank: ClassVar[int] = 50
    """Its place among the figures of a study that names none: lower comes first."""

    @abstractmethod
    def chart(self, measured: Measured) -> Chart | None:
        """What the figure shows; None where the study has nothing of the kind."""


def band(values: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Median and band over seeds (axis 0) of the finite values; NaN where there is none.

    The band is smallest to largest for few seeds, 5 % to 95 % of them for many.
    """
    finite = np.where(np.isfinite(values), values, np.nan)
    there = np.isfinite(finite).any(0)
    edge = 0.05 if len(values) > FEW_SEEDS else 0.0
    rows = np.full((3, values.shape[1]), np.nan)
    rows[:, there] = np.nanquantile(finite[:, there], (0.5, edge, 1 - edge), axis=0)
    centre, low, high = rows
    return centre, low, high


def layer_line(profile: Profile, label: str, style: int) -> Line | None:
    """A layer profile as a line, without the layers where the measure does not exist."""
    if profile.values.size == 0:
        return None
    centre, low, high = band(profile.values)
    there = np.isfinite(centre)
    if not there.any():
        return None
    return Line(label, profile.layers[there].astype(float), centre[there], low[there], high[there], style, markers=True)


def layer_chart(
    measured: Measured, measure: str, title: str, y_label: str, *, step: str = "end", log_y: bool = True
) -> LineChart | None:
    """A measure by layer, one line per group, published numbers beside."""
    if measure not in measured.measures:
        return None
    found = [
        layer_line(measured.profile(measure, name, step), name, index)
        for index, name in enumerate(measured.group_names[:MOST_LINES])
    ]
    lines = tuple(line for line in found if line is not None)
    if not lines:
        return None
    return LineChart(
        title,
        "layer",
        y_label,
        lines,
        published_points(measured, measure, step),
        log_y=log_y,
        whole_x=True,
        note=seeds_note(measured),
    )


def published_points(measured: Measured, measure: str, step: str) -> tuple[Points, ...]:
    """Published numbers of this measure that have a layer."""
    found = []
    for index, name in enumerate(measured.group_names[:MOST_LINES]):
        rows = [
            row
            for row in beside(measured)
            if row.group == name and row.metric == measure and isinstance(row.at.layer, int) and row.at.step == step
        ]
        if rows:
            x = np.array([float(row.at.layer) for row in rows])  # type: ignore[arg-type]
            found.append(Points("published", x, np.array([row.published for row in rows]), index))
    return tuple(found)


def seeds_note(measured: Measured) -> str:
    """What line and band are."""
    count = measured.seeds_done
    if count == 1:
        return "one seed"
    extent = "smallest to largest" if count <= FEW_SEEDS else "5 % to 95 %"
    note = f"line: median, band: {extent} of {count:,} seeds"
    groups = len(measured.group_names)
    return note if groups <= MOST_LINES else f"{note}; the first {MOST_LINES} of {groups} groups"

"""Distributions side by side, one box per place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.report.charts.base import Chart, Level, Numbers, Points, Rows, draw_levels, draw_points
from gradlab.report.log_axis import log_y
from gradlab.report.look import INK, pt, stroke
from gradlab.spec.numerals import written

BOX = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles: whisker, box, median, box, whisker."""


@dataclass(frozen=True)
class BoxChart(Chart):
    """Distributions side by side: one box (5, 25, 50, 75, 95 %) per place."""

    places: tuple[int, ...]
    samples: tuple[Numbers, ...]
    points: tuple[Points, ...] = ()
    log_y: bool = True
    levels: tuple[Level, ...] = ((1.0, "equal"),)

    def draw_marks(self, ax: Any) -> None:
        """One box per place, published stars, reference levels."""
        _draw_boxes(self, ax)

    def table(self) -> Rows:
        """The five numbers of every box."""
        quantiles = [np.quantile(sample, BOX).tolist() for sample in self.samples]
        header = (self.x_label, *(f"{100 * q:.0f} %" for q in BOX))
        return header, [(place, *values) for place, values in zip(self.places, quantiles, strict=True)]

    def describe(self) -> str:
        """The median of every box."""
        medians = [
            f"{place}: {written(float(np.median(s)))}" for place, s in zip(self.places, self.samples, strict=True)
        ]
        return f"Medians by {self.x_label}: {', '.join(medians)}."


def _draw_boxes(chart: BoxChart, ax: Any) -> None:
    color = stroke(1).color
    boxes = [
        dict(zip(("whislo", "q1", "med", "q3", "whishi"), np.quantile(s, BOX), strict=True)) for s in chart.samples
    ]
    ax.bxp(
        boxes,
        positions=chart.places,
        showfliers=False,
        widths=0.5,
        manage_ticks=False,
        patch_artist=True,
        boxprops={"facecolor": color, "alpha": 0.25, "edgecolor": color},
        medianprops={"color": color, "linewidth": pt(2.4)},
        whiskerprops={"color": color},
        capprops={"color": color},
    )
    ax.plot([], [], color=color, linewidth=pt(2.4), label="median; box 25–75 %, whiskers 5–95 %")
    draw_points(chart.points, ax)
    if chart.log_y:
        log_y(ax)
    ax.set_xlim(min(chart.places) - 0.6, max(chart.places) + 0.6)
    ax.set_xticks(chart.places, [str(place) for place in chart.places])
    draw_levels(chart.levels, ax, INK)
    ax.grid(axis="x", visible=False)

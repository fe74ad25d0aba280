"""Lines with bands over seeds.

On a log axis exact zeros are drawn on a marked floor below the smallest positive value, never dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.report.charts.base import Chart, Level, Numbers, Points, Rows, draw_levels, draw_points, legend_text
from gradlab.report.log_axis import log_x, log_y
from gradlab.report.look import INK, stroke


@dataclass(frozen=True)
class Line:
    """A group's center with a band over seeds; `style` is the group's place in the study."""

    label: str
    x: Numbers
    y: Numbers
    low: Numbers
    high: Numbers
    style: int
    markers: bool = False


@dataclass(frozen=True)
class LineChart(Chart):
    """Everything that a line figure shows."""

    lines: tuple[Line, ...]
    points: tuple[Points, ...] = ()
    log_y: bool = False
    log_x: bool = False
    whole_x: bool = False
    levels: tuple[Level, ...] = ()
    """Horizontal reference lines with their names."""

    def draw_marks(self, ax: Any) -> None:
        """Lines with bands, published stars, reference levels."""
        _draw_lines(self, ax)

    def table(self) -> Rows:
        """One row per point of a line, published points after them."""
        rows: list[tuple[Any, ...]] = [
            (line.label, *map(float, point))
            for line in self.lines
            for point in zip(line.x, line.y, line.low, line.high, strict=True)
        ]
        rows += [(p.label, float(x), float(y), None, None) for p in self.points for x, y in zip(p.x, p.y, strict=True)]
        return ("series", self.x_label, self.y_label, "low", "high"), rows

    def describe(self) -> str:
        """Every line from its first point to its last."""
        return "; ".join(_describe_ends(line.label, line.x, line.y) for line in self.lines) + "."


def _describe_ends(label: str, x: Numbers, y: Numbers) -> str:
    there = np.flatnonzero(np.isfinite(y))
    if len(there) == 0:
        return f"{label}: no numbers"
    first, last = there[0], there[-1]
    return f"{label}: {y[first]:.3g} at {x[first]:g}, {y[last]:.3g} at {x[last]:g}"


def _draw_lines(chart: LineChart, ax: Any) -> None:
    floor = _floor(chart) if chart.log_y else None
    for line in chart.lines:
        s = stroke(line.style)
        marker = s.marker if line.markers else None
        y, low, high = (_lift_zeros(values, floor) for values in (line.y, line.low, line.high))
        ax.fill_between(line.x, low, high, color=s.color, alpha=0.16, linewidth=0)
        ax.plot(
            line.x, y, color=s.color, linestyle=s.dashes, marker=marker, markersize=4.5, label=legend_text(line.label)
        )
        if floor is not None and (zero := line.y == 0).any():
            ax.plot(line.x[zero], np.full(zero.sum(), floor), "v", color=s.color, markersize=6, markerfacecolor="white")
    draw_points(chart.points, ax)
    if (chart.log_y and any((line.high > 0).any() for line in chart.lines)) or floor is not None:
        log_y(ax)
    if chart.log_x:
        log_x(ax)
    if chart.whole_x:
        _set_whole_ticks(ax, chart.lines)
    draw_levels(chart.levels, ax)
    if floor is not None and any((line.low == 0).any() for line in chart.lines):
        ax.axhline(floor, color=INK, linewidth=0.8)
        ax.annotate(
            "exactly 0", (1, floor), (-2, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
            ha="right", color=INK, fontsize=8,
        )  # fmt: skip


def _set_whole_ticks(ax: Any, lines: tuple[Line, ...]) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=11, steps=[1, 2, 5, 10]))
    largest = max((float(line.x.max()) for line in lines if len(line.x)), default=1)
    ax.set_xlim(0.5, largest + 0.5)


def _floor(chart: LineChart) -> float | None:
    """A decade or more below the smallest positive value, where zeros are drawn."""
    everything = np.concatenate(
        [np.concatenate([line.y, line.low, line.high]) for line in chart.lines] or [np.empty(0)]
    )
    finite = everything[np.isfinite(everything)]
    positive = finite[finite > 0]
    if not (finite == 0).any():
        return None
    if len(positive) == 0:
        return 1e-30  # nothing but zeros: any place will do
    decades = max(1.0, 0.06 * float(np.log10(positive.max() / positive.min())))
    return float(positive.min() / 10**decades)


def _lift_zeros(values: Numbers, floor: float | None) -> Numbers:
    return values if floor is None else np.where(values == 0, floor, values)

"""Numbers against a study's axis: every seed is a dot, the line goes through the medians."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gradlab.report.charts.base import Chart, Level, Numbers, Points, Rows, draw_levels, draw_points, legend_text
from gradlab.report.log_axis import log_x, log_y
from gradlab.report.look import plain, stroke


@dataclass(frozen=True)
class Dots:
    """One series: at each x the values of all seeds."""

    label: str
    x: Numbers
    values: tuple[Numbers, ...]
    style: int


@dataclass(frozen=True)
class AxisChart(Chart):
    """Series along an axis that is a number (drawn by size or by ratio) or a word (drawn side by side)."""

    series: tuple[Dots, ...]
    ticks: tuple[Level, ...]
    log_x: bool = False
    log_y: bool = False
    points: tuple[Points, ...] = ()
    levels: tuple[Level, ...] = ()

    def draw_marks(self, ax: Any) -> None:
        """Dots beside each other where series share a place, medians joined by a line."""
        from matplotlib.ticker import NullLocator

        for index, series in enumerate(self.series):
            self._draw(ax, series, self._shift(index))
        draw_points(self.points, ax)
        if self.log_x:
            log_x(ax)
        if self.log_y:
            log_y(ax)
        places, labels = zip(*self.ticks, strict=True)
        turned = {"rotation": 30, "ha": "right"} if self.crowded else {}
        ax.set_xticks(places, [plain(label) for label in labels], **turned)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.grid(axis="x", visible=False)
        draw_levels(self.levels, ax)

    def table(self) -> Rows:
        """One row per seed."""
        names = dict(self.ticks)
        rows = [
            (series.label, names.get(float(x), float(x)), float(value))
            for series in self.series
            for x, values in zip(series.x, series.values, strict=True)
            for value in values
        ]
        return ("series", self.x_label, self.y_label), rows

    def describe(self) -> str:
        """The medians of every series along the axis."""
        names = dict(self.ticks)
        parts = []
        for series in self.series:
            points = zip(series.x, series.values, strict=True)
            medians = [f"{names.get(float(x), x)}: {np.median(v):.3g}" for x, v in points if len(v)]
            parts.append(f"{series.label}: {', '.join(medians)}")
        return f"Medians, {'; '.join(parts)}."

    @property
    def crowded(self) -> bool:
        """Whether the labels of the axis have to be turned."""
        return sum(len(text) for _, text in self.ticks) > 60

    @property
    def note_drop(self) -> int:
        """Turned labels need room."""
        return 92 if self.crowded else 40

    def _draw(self, ax: Any, series: Dots, shift: float) -> None:
        s = stroke(series.style)
        x = series.x * shift if self.log_x else series.x + shift
        there = [place for place, values in enumerate(series.values) if len(values)]
        for place in there:
            values = series.values[place]
            ax.plot(
                np.full(len(values), x[place]), values, linestyle="none", marker=s.marker, markersize=4,
                color=s.color, alpha=0.45, markeredgewidth=0,
            )  # fmt: skip
        medians = [float(np.median(series.values[place])) for place in there]
        ax.plot(
            x[there], medians, color=s.color, linestyle=s.dashes, marker=s.marker, markersize=6,
            label=legend_text(series.label),
        )  # fmt: skip

    def _shift(self, index: int) -> float:
        """Series stand a little beside each other, so that no dot hides another."""
        offset = index - (len(self.series) - 1) / 2
        places = sorted({place for place, _ in self.ticks})
        if self.log_x:
            nearest = min((b / a for a, b in pairwise(places)), default=2.0)
            return float(nearest ** (0.08 * offset))
        nearest = min((b - a for a, b in pairwise(places)), default=1.0)
        return 0.08 * nearest * offset

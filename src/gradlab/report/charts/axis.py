"""Numbers against a study's axis: every seed is a dot, the medians are joined where the axis is a number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.report.charts.base import Chart, End, Level, Numbers, Points, Rows, draw_levels, draw_points, legend_text
from gradlab.report.charts.panels import Panels
from gradlab.report.log_axis import log_x, log_y
from gradlab.report.look import GHOST, Stroke, plain, pt, stroke
from gradlab.spec.numerals import written

if TYPE_CHECKING:
    from gradlab.report.scheme import Scheme


@dataclass(frozen=True)
class Dots:
    """One series: at each x the values of all seeds."""

    label: str
    x: Numbers
    values: tuple[Numbers, ...]
    style: int | Stroke
    groups: tuple[str, ...] = ()
    """The group at each x."""

    @property
    def medians(self) -> tuple[Numbers, Numbers]:
        """Places and medians, where there are values."""
        there = [place for place, values in enumerate(self.values) if len(values)]
        return self.x[there], np.array([float(np.median(self.values[place])) for place in there])


@dataclass(frozen=True)
class AxisChart(Chart):
    """Series along an axis that is a number (by size or by ratio, joined) or a word (side by side, not joined)."""

    series: tuple[Dots, ...]
    ticks: tuple[Level, ...]
    log_x: bool = False
    log_y: bool = False
    points: tuple[Points, ...] = ()
    levels: tuple[Level, ...] = ()
    joined: bool = True
    """Whether the axis is a number, so that a line between its values means something."""
    path: str = ""
    """The setting that the axis is."""
    ghosts: tuple[Dots, ...] = ()

    @property
    def along(self) -> str:
        """The setting that the axis is."""
        return self.path

    def arranged(self, scheme: Scheme) -> Chart:
        """Names and strokes of the scheme; panels, where it has any."""
        there = [dots for dots in self.series if dots.groups and dots.groups[0] in scheme]
        if not there:
            return self
        named = [
            (
                scheme.panel(dots.groups[0]),
                replace(dots, label=scheme.label(dots.groups[0]), style=scheme.strokes[dots.groups[0]]),
            )
            for dots in there
        ]
        if len(there) == 1:
            named = [(title, replace(dots, label="")) for title, dots in named]
        points = [(scheme.panel(p.group), scheme.restyle_points(p)) for p in self.points if p.group in scheme]
        tips = tuple((dots.label, scheme.tip(dots.groups[0])) for _, dots in named)
        titles = list(dict.fromkeys(title for title, _ in named))
        if len(titles) == 1:
            return replace(
                self, series=tuple(d for _, d in named), points=tuple(p for _, p in points), tips=tips,
                left_out=scheme.left_out,
            )  # fmt: skip
        charts = tuple(
            replace(
                self, title=title, series=tuple(d for own, d in named if own == title),
                points=tuple(p for own, p in points if own == title),
                ghosts=tuple(d for own, d in named if own != title) if scheme.ghosts else (),
                note="", finding="", warning="",
            )
            for title in titles
        )  # fmt: skip
        note = self.note + ("; gray: the other panels" if scheme.ghosts else "")
        return Panels(
            self.title, self.x_label, self.y_label, charts, scheme.facet_name, same_x=True, note=note,
            finding=self.finding, warning=self.warning, left_out=scheme.left_out, tips=tips,
        )  # fmt: skip

    def draw_marks(self, ax: Any) -> None:
        """Dots beside each other where series share a place, medians joined by a line."""
        for ghost in self.ghosts:
            ax.plot(*ghost.medians, color=GHOST, linewidth=pt(0.8), linestyle="-" if self.joined else "none", zorder=1)
        for index, series in enumerate(self.series):
            self._draw(ax, series, self._shift(index))
        draw_points(self.points, ax)
        if self.log_x:
            log_x(ax)
        if self.log_y:
            log_y(ax)
        places, labels = zip(*self.ticks, strict=True)
        ax.set_xticks(places, [plain(label) for label in labels])
        if not self.joined:
            ax.set_xlim(min(places) - 0.5, max(places) + 0.5)
        ax.grid(axis="x", visible=False)
        draw_levels(self.levels, ax)

    def line_ends(self) -> tuple[End, ...]:
        """The last median of every series, if they end at the same value of the axis."""
        found = [(s, *s.medians) for s in self.series]
        if not self.joined or any(len(x) == 0 for _, x, _ in found) or len({float(x[-1]) for _, x, _ in found}) > 1:
            return ()
        return tuple(End(s.label, float(x[-1]), float(y[-1]), stroke(s.style).color) for s, x, y in found)

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
            found = ", ".join(
                f"{names.get(float(x), x)}: {written(float(y))}" for x, y in zip(*series.medians, strict=True)
            )
            parts.append(f"{series.label}: {found}" if series.label else found)
        return f"Medians, {'; '.join(parts)}."

    def _draw(self, ax: Any, series: Dots, shift: float) -> None:
        s = stroke(series.style)
        x = series.x * shift if self.log_x else series.x + shift
        for place, values in zip(x, series.values, strict=True):
            if len(values) > 1:
                ax.plot(
                    np.full(len(values), place), values, linestyle="none", marker=s.marker, markersize=pt(3.6),
                    color=s.color, alpha=0.45, markeredgewidth=0,
                )  # fmt: skip
        own, medians = series.medians
        beside = own * shift if self.log_x else own + shift
        style: Any = {"linestyle": s.dashes, "marker": s.marker, "markersize": pt(6)}
        if not self.joined:
            style = {"linestyle": "none", "marker": s.marker, "markersize": pt(8)}
        label = legend_text(series.label) if series.label and not self.ghosts else None
        ax.plot(beside, medians, color=s.color, label=label, **style)

    def _shift(self, index: int) -> float:
        """Series stand a little beside each other, so that no dot hides another."""
        offset = index - (len(self.series) - 1) / 2
        places = sorted({place for place, _ in self.ticks})
        if self.log_x:
            nearest = min((b / a for a, b in pairwise(places)), default=2.0)
            return float(nearest ** (0.06 * offset))
        nearest = min((b - a for a, b in pairwise(places)), default=1.0)
        apart = 0.06 if self.joined else min(0.16, 0.7 / max(len(self.series), 1))
        return apart * nearest * offset

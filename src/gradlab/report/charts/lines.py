"""Lines: bands over seeds, numbers against a study's axis, and how sensitive arms are to a tuned setting.

On a log axis exact zeros are drawn on a marked floor below the smallest positive value, never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.report.charts.base import (
    LAYER,
    MODULE,
    Chart,
    End,
    Level,
    Numbers,
    Panels,
    Points,
    Rows,
    draw_column,
    draw_levels,
    draw_points,
    legend_text,
    lift_zeros,
    ticks_of,
)
from gradlab.report.look import GHOST, GROUND, INK, SOFT, Stroke, plain, pt, stroke
from gradlab.words import written

if TYPE_CHECKING:
    from gradlab.report.scheme import Scheme

BAND = 0.16
"""How opaque a band is."""
SMALLEST = 1e-300
"""Nothing is drawn below: a log axis needs room above the smallest number there is."""


@dataclass(frozen=True)
class Line:
    """A group's center with a band over seeds; `style` is a stroke, or the group's place in the study."""

    label: str
    x: Numbers
    y: Numbers
    low: Numbers
    high: Numbers
    style: int | Stroke
    markers: bool = False
    faint: bool = False
    """Drawn thin and without markers: beside the main line."""

    @property
    def group(self) -> str:
        """The group it is about: figures label their lines with groups, and the scheme renames them."""
        return self.label


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
    ghosts: tuple[Line, ...] = ()
    """Lines of the other panels, gray in the background."""
    theory: tuple[Line, ...] = ()
    """What theory predicts for the same groups: thin and dotted, with its band over seeds."""
    floor: float | None = None
    """Where exact zeros are drawn on a log axis; None: a decade or more below the smallest positive value."""
    layers: tuple[str, ...] = ()
    """Names of places 1, 2, … of the x axis, if they are modules."""

    def with_layers(self, names: Sequence[str]) -> Chart:
        """Modules along the x axis."""
        return replace(self, layers=tuple(names), x_label=MODULE) if names and self.x_label == LAYER else self

    def arranged(self, scheme: Scheme) -> Chart:
        """Names and strokes of the scheme; panels, where it has any."""
        shown = [line for line in self.lines if line.group in scheme]
        if not shown:
            return self
        tips = tuple(dict.fromkeys((scheme.label(line.group), scheme.tip(line.group)) for line in shown))
        titles = list(dict.fromkeys(scheme.panel(line.group) for line in shown))
        charts = tuple(self._panel(scheme, title if len(titles) > 1 else None) for title in titles)
        if len(charts) == 1:
            return replace(charts[0], tips=tips, left_out=scheme.left_out)
        panels = tuple(
            replace(chart, title=title, floor=zero_floor(self.lines) if self.log_y else None, note="", finding="",
                    warning="")
            for title, chart in zip(titles, charts, strict=True)
        )  # fmt: skip
        note = self.note + ("; gray: the other panels" if scheme.ghosts else "")
        return Panels(
            self.title, self.x_label, self.y_label, panels, scheme.facet_name, same_x=self._same_x, note=note,
            finding=self.finding, warning=self.warning, left_out=scheme.left_out, tips=tips,
        )  # fmt: skip

    def _panel(self, scheme: Scheme, title: str | None) -> LineChart:
        """What the panel of this title shows, named and drawn by the scheme; without a title everything."""

        def is_here(item: Line | Points) -> bool:
            return item.group in scheme and title in (None, scheme.panel(item.group))

        lines = tuple(scheme.restyle(line) for line in self.lines if is_here(line))
        theory = tuple(scheme.restyle(line) for line in self.theory if is_here(line))
        points = tuple(replace(p, style=scheme.strokes[p.group]) for p in self.points if is_here(p))
        others = (line for line in self.lines if line.group in scheme and not is_here(line))
        ghosts = tuple(map(scheme.restyle, others)) if scheme.ghosts else ()
        return replace(self, lines=lines, points=points, theory=theory, ghosts=ghosts)

    @property
    def _same_x(self) -> bool:
        return len({float(line.x.max()) for line in self.lines if len(line.x)}) == 1

    def draw_marks(self, ax: Any) -> None:
        """Lines with bands, published stars, reference levels."""
        floor = (self.floor if self.floor is not None else zero_floor(self.lines)) if self.log_y else None
        for ghost in self.ghosts:
            ax.plot(ghost.x, lift_zeros(ghost.y, floor), color=GHOST, linewidth=pt(0.8), zorder=1)
        for line in self.lines:
            _draw_line(line, ax, floor, named=not self.ghosts)  # the panel's title names its only line
        _draw_theory(self.theory, ax)
        draw_points(self.points, ax)
        if (self.log_y and any((line.high > 0).any() for line in self.lines)) or floor is not None:
            ax.set_yscale("log")
        if self.log_x:
            ax.set_xscale("log")
        ax.margins(x=0.02)
        if self.whole_x:
            _set_whole_ticks(ax, (*self.lines, *self.ghosts))
        if self.layers:
            ax.set_xlim(0.5, len(self.layers) + 0.5)
            ax.set_xticks(*zip(*ticks_of(self.layers), strict=True))
        draw_levels(self.levels, ax)
        if floor is not None and any((line.low == 0).any() for line in self.lines):
            ax.axhline(floor, color=INK, linewidth=pt(0.8), linestyle=(0, (1, 1)), label="exactly 0", zorder=1)

    def line_ends(self) -> tuple[End, ...]:
        """The last point of every line, if all end at the same place."""
        lasts = [line.x[-1] for line in self.lines if len(line.x)]
        if not lasts or max(lasts) - min(lasts) > 0.02 * abs(max(lasts)):
            return ()
        has_floor = self.log_y and zero_floor(self.lines) is not None
        if has_floor or not all(np.isfinite(line.y[-1]) for line in self.lines):
            return ()
        return tuple(
            End(line.label, float(line.x[-1]), float(line.y[-1]), stroke(line.style).color) for line in self.lines
        )

    def table(self) -> Rows:
        """One row per point of a line, published points after them."""
        rows: list[tuple[Any, ...]] = [
            (line.label, self._place(point[0]), *map(float, point[1:]))
            for line in self.lines
            for point in zip(line.x, line.y, line.low, line.high, strict=True)
        ]
        rows += [
            (f"{line.label} (theory)", *map(float, point))
            for line in self.theory
            for point in zip(line.x, line.y, line.low, line.high, strict=True)
        ]
        rows += [(p.label, float(x), float(y), None, None) for p in self.points for x, y in zip(p.x, p.y, strict=True)]
        return ("series", self.x_label, self.y_label, "low", "high"), rows

    def describe(self) -> str:
        """Every line from its first point to its last."""
        return "; ".join(self._describe_ends(line.label, line.x, line.y) for line in self.lines) + "."

    def _place(self, x: float) -> float | str:
        """A place of the x axis: the name of a module, or the number."""
        return self.layers[round(x) - 1] if 1 <= x <= len(self.layers) else float(x)

    def _describe_ends(self, label: str, x: Numbers, y: Numbers) -> str:
        finite = np.flatnonzero(np.isfinite(y))
        if len(finite) == 0:
            return f"{label}: no numbers"
        places = [self._place(x[end]) for end in (finite[0], finite[-1])]
        first, last = (place if isinstance(place, str) else f"{place:g}" for place in places)
        return f"{label}: {written(float(y[finite[0]]))} at {first}, {written(float(y[finite[-1]]))} at {last}"


def _draw_line(line: Line, ax: Any, floor: float | None, *, named: bool) -> None:
    s = stroke(line.style)
    y, low, high = (lift_zeros(values, floor) for values in (line.y, line.low, line.high))
    if not np.array_equal(low, high, equal_nan=True):
        ax.fill_between(line.x, low, high, color=s.color, alpha=BAND, linewidth=0)
    style: Any = {"linestyle": s.dashes, "marker": s.marker if line.markers else None, "markersize": pt(4.2)}
    if line.faint:
        style = {"linestyle": s.dashes, "linewidth": pt(1.1)}
    elif line.markers and len(line.x) > 24:
        style["markevery"] = -(-len(line.x) // 16)
    ax.plot(line.x, y, color=s.color, label=legend_text(line.label) if named else None, **style)
    if floor is not None and (zero := line.y == 0).any():
        ax.plot(line.x[zero], np.full(zero.sum(), floor), "v", color=s.color, markersize=pt(6), markerfacecolor=GROUND)


def _draw_theory(lines: Sequence[Line], ax: Any) -> None:
    """Thin dotted lines above the measured ones; the band is two edges in the color of its group."""
    for index, line in enumerate(lines):
        color = stroke(line.style).color
        ax.plot(line.x, line.y, color=INK, linewidth=pt(1.0), linestyle=(0, (1, 1.2)), zorder=4)
        for edge in (line.low, line.high):
            ax.plot(line.x, edge, color=color, linewidth=pt(0.5), linestyle=(0, (1, 2.4)), alpha=0.8, zorder=2)
        if index == 0:
            name = "theory, 95 % band over seeds"
            ax.plot([], [], color=INK, linewidth=pt(1.0), linestyle=(0, (1, 1.2)), label=name)


def _set_whole_ticks(ax: Any, lines: Sequence[Line]) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    places = np.concatenate([line.x for line in lines if len(line.x)] or [np.ones(1)])
    if places.min() == 1:  # from the first layer, step or epoch
        ax.set_xlim(0.5, float(places.max()) + 0.5)


def zero_floor(lines: Sequence[Line]) -> float | None:
    """A decade or more below the smallest positive value, where zeros are drawn; None if there are none."""
    everything = np.concatenate([np.concatenate([line.y, line.low, line.high]) for line in lines] or [np.empty(0)])
    finite = everything[np.isfinite(everything)]
    positive = finite[finite > 0]
    if not (finite == 0).any():
        return None
    if len(positive) == 0:
        return 1e-30  # nothing but zeros: any place will do
    decades = max(1.0, 0.06 * float(np.log10(positive.max()) - np.log10(positive.min())))
    return max(float(positive.min() / 10**decades), SMALLEST)


# Numbers against a study's axis.


@dataclass(frozen=True)
class Dots(Line):
    """One series along an axis: at each x the values of all seeds; y is their median, NaN where there is none."""

    values: tuple[Numbers, ...] = ()
    groups: tuple[str, ...] = ()
    """The group at each x."""

    @property
    def group(self) -> str:
        """The group at the first x: the scheme names a series by it."""
        return self.groups[0] if self.groups else ""

    @property
    def medians(self) -> tuple[Numbers, Numbers]:
        """Places and medians, where there are values."""
        known = [place for place, values in enumerate(self.values) if len(values)]
        return self.x[known], self.y[known]


@dataclass(frozen=True)
class AxisChart(LineChart):
    """Every seed a dot, along an axis that is a number (the medians joined) or a word (side by side, not joined)."""

    lines: tuple[Dots, ...]
    ghosts: tuple[Dots, ...] = ()
    ticks: tuple[Level, ...] = field(kw_only=True)
    joined: bool = field(default=True, kw_only=True)
    """Whether the axis is a number, so that a line between its values means something."""
    path: str = field(default="", kw_only=True)
    """The setting that the axis is."""

    @property
    def _same_x(self) -> bool:
        return True

    @property
    def along(self) -> str:
        """The setting that the axis is."""
        return self.path

    def _panel(self, scheme: Scheme, title: str | None) -> LineChart:
        """A single series needs no name: the axis says what varies."""
        panel = super()._panel(scheme, title)
        only = sum(dots.group in scheme for dots in self.lines) == 1
        return replace(panel, lines=tuple(replace(dots, label="") for dots in panel.lines)) if only else panel

    def draw_marks(self, ax: Any) -> None:
        """Dots beside each other where series share a place, medians joined by a line."""
        for ghost in self.ghosts:
            ax.plot(*ghost.medians, color=GHOST, linewidth=pt(0.8), linestyle="-" if self.joined else "none", zorder=1)
        for index, dots in enumerate(self.lines):
            self._draw_dots(ax, dots, self._shift(index))
        draw_points(self.points, ax)
        if self.log_x:
            ax.set_xscale("log")
        if self.log_y:
            ax.set_yscale("log")
        places, labels = zip(*self.ticks, strict=True)
        ax.set_xticks(places, [plain(label) for label in labels])
        if not self.joined:
            ax.set_xlim(min(places) - 0.5, max(places) + 0.5)
        ax.grid(axis="x", visible=False)
        draw_levels(self.levels, ax)

    def line_ends(self) -> tuple[End, ...]:
        """The last median of every series, if they end at the same value of the axis."""
        ends = [(dots, *dots.medians) for dots in self.lines]
        if not self.joined or any(len(x) == 0 for _, x, _ in ends) or len({float(x[-1]) for _, x, _ in ends}) > 1:
            return ()
        return tuple(End(dots.label, float(x[-1]), float(y[-1]), stroke(dots.style).color) for dots, x, y in ends)

    def table(self) -> Rows:
        """One row per seed."""
        names = dict(self.ticks)
        rows = [
            (dots.label, names.get(float(x), float(x)), float(value))
            for dots in self.lines
            for x, values in zip(dots.x, dots.values, strict=True)
            for value in values
        ]
        return ("series", self.x_label, self.y_label), rows

    def describe(self) -> str:
        """The medians of every series along the axis."""
        names = dict(self.ticks)
        parts = []
        for dots in self.lines:
            medians = ", ".join(
                f"{names.get(float(x), x)}: {written(float(y))}" for x, y in zip(*dots.medians, strict=True)
            )
            parts.append(f"{dots.label}: {medians}" if dots.label else medians)
        return f"Medians, {'; '.join(parts)}."

    def _draw_dots(self, ax: Any, dots: Dots, shift: float) -> None:
        s = stroke(dots.style)
        for x, values in zip(self._move(dots.x, shift), dots.values, strict=True):
            if len(values) > 1:
                draw_column(ax, x, values, s, markersize=pt(3.6), alpha=0.45, markeredgewidth=0)
        places, medians = dots.medians
        style: Any = {"linestyle": s.dashes, "markersize": pt(6)}
        if not self.joined:
            style = {"linestyle": "none", "markersize": pt(8)}
        label = legend_text(dots.label) if dots.label and not self.ghosts else None
        ax.plot(self._move(places, shift), medians, color=s.color, marker=s.marker, label=label, **style)

    def _move(self, x: Numbers, shift: float) -> Numbers:
        return x * shift if self.log_x else x + shift

    def _shift(self, index: int) -> float:
        """Series stand a little beside each other, so that no dot hides another."""
        offset = index - (len(self.lines) - 1) / 2
        places = sorted({place for place, _ in self.ticks})
        if self.log_x:
            nearest = min((b / a for a, b in pairwise(places)), default=2.0)
            return float(nearest ** (0.06 * offset))
        nearest = min((b - a for a, b in pairwise(places)), default=1.0)
        apart = 0.06 if self.joined else min(0.16, 0.7 / max(len(self.lines), 1))
        return apart * nearest * offset


# How sensitive each arm is to a tuned setting: the metric by value, and which value was chosen.


@dataclass(frozen=True)
class SensitivityCurve:
    """One arm along one setting: median, best and worst over the tuning seeds; not finite where they diverged."""

    arm: str
    x: Numbers
    median: Numbers
    best: Numbers
    worst: Numbers
    chosen: int | None
    """The place of the value at which the arm is judged; None before the choice."""
    edge: bool
    """Whether that is the smallest or largest that was tried."""
    style: int


@dataclass(frozen=True)
class SensitivityChart(Chart):
    """The curves of all arms along one tuned setting, which the x axis names."""

    curves: tuple[SensitivityCurve, ...]
    ticks: tuple[Level, ...] = ()
    """Names of places on the axis, if the values are words."""
    log_x: bool = False
    untuned: float | None = None
    """The value of the base."""
    log_y: bool = False
    lower_is_better: bool = True
    cap: float | None = None
    """Medians beyond it are marked at the end of the axis instead: a loss that explodes would hide all others."""

    def table(self) -> Rows:
        """One row per arm and value."""
        names = dict(self.ticks)
        rows = [
            (self.x_label, curve.arm, names.get(float(x), float(x)), *map(float, numbers), place == curve.chosen)
            for curve in self.curves
            for place, (x, *numbers) in enumerate(zip(curve.x, curve.median, curve.best, curve.worst, strict=True))
        ]
        return ("setting", "arm", "value", "median", "best", "worst", "chosen"), rows

    def describe(self) -> str:
        """The chosen value of every arm, and its metric."""
        parts, names = [], dict(self.ticks)
        for curve in self.curves:
            if curve.chosen is not None:
                x, y = float(curve.x[curve.chosen]), curve.median[curve.chosen]
                where = ", at the edge of the range" if curve.edge else ""
                parts.append(f"{curve.arm}: {self.x_label} {names.get(x, written(x))} ({written(y)}{where})")
        return f"Chosen, {'; '.join(parts)}." if parts else "Nothing was chosen yet."

    def draw_marks(self, ax: Any) -> None:
        """Curves with bands, the chosen value ringed, diverged medians as crosses at the end of the axis."""
        for curve in self.curves:
            self._draw_curve(ax, curve)
        if self.log_y:
            ax.set_yscale("log")
        if self.log_x:
            ax.set_xscale("log")
        if self.ticks:
            places, names = zip(*self.ticks, strict=True)
            ax.set_xticks(places, [plain(name) for name in names])
        ax.margins(y=0.14)
        height, step = (0.96, -0.04) if self.lower_is_better else (0.04, 0.04)
        for index, curve in enumerate(self.curves):
            lost = ~self._is_shown(curve)
            ax.plot(
                curve.x[lost], np.full(lost.sum(), height + step * index), "x", color=stroke(curve.style).color,
                markersize=pt(6), transform=ax.get_xaxis_transform(),
            )  # fmt: skip
        self._explain(ax)

    def _is_shown(self, curve: SensitivityCurve) -> NDArray[np.bool_]:
        """Which medians are drawn at their height."""
        return np.isfinite(curve.median) & (curve.median <= (np.inf if self.cap is None else self.cap))

    def _draw_curve(self, ax: Any, curve: SensitivityCurve) -> None:
        s, shown = stroke(curve.style), self._is_shown(curve)
        worst = curve.worst if self.cap is None else np.minimum(curve.worst, self.cap)
        low, high = np.minimum(curve.best, worst), np.maximum(curve.best, worst)
        ax.fill_between(curve.x, low, high, where=shown & np.isfinite(worst), color=s.color, alpha=BAND, linewidth=0)
        ax.plot(
            curve.x[shown], curve.median[shown], color=s.color, linestyle=s.dashes, marker=s.marker,
            markersize=pt(4.5), label=legend_text(curve.arm),
        )  # fmt: skip
        if curve.chosen is None or not shown[curve.chosen]:
            return
        x, y = curve.x[curve.chosen], curve.median[curve.chosen]
        ring = {"markersize": pt(13), "markerfacecolor": "none", "markeredgewidth": pt(1.8)}
        ax.plot([x], [y], "o", color=s.color, zorder=4, clip_on=False, **ring)
        if curve.edge:
            side, align = (10, "left") if x == curve.x.min() else (-10, "right")
            ax.annotate("edge", (x, y), (side, 9), textcoords="offset points", fontsize=pt(8), color=s.color, ha=align)

    def _explain(self, ax: Any) -> None:
        """Entries of the legend for what is not a curve."""
        if any(curve.chosen is not None for curve in self.curves):
            ring = {"markersize": pt(10), "markerfacecolor": "none", "markeredgewidth": pt(1.5)}
            ax.plot([], [], "o", color=INK, label="chosen", **ring)
        lost = np.concatenate([curve.median[~self._is_shown(curve)] for curve in self.curves])
        if len(lost):
            name = "diverged or off the axis" if np.isfinite(lost).any() else "diverged"
            ax.plot([], [], "x", color=INK, markersize=pt(6), label=name)
        if self.untuned is not None:
            dotted = {"color": SOFT, "linewidth": pt(1.4), "linestyle": (0, (1, 1.6))}
            ax.axvline(self.untuned, zorder=0.9, **dotted)
            ax.plot([], [], label="untuned value", **dotted)

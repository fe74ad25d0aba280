"""Lines with bands over seeds.

On a log axis exact zeros are drawn on a marked floor below the smallest positive value, never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.report.charts.base import Chart, End, Level, Numbers, Points, Rows, draw_levels, draw_points, legend_text
from gradlab.report.charts.panels import Panels
from gradlab.report.layer_names import LAYER, MODULE, ticks_of
from gradlab.report.log_axis import log_x, log_y
from gradlab.report.look import GHOST, GROUND, INK, Stroke, pt, stroke
from gradlab.spec.numerals import written

if TYPE_CHECKING:
    from gradlab.report.scheme import Scheme


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
        if not any(line.group in scheme for line in self.lines):
            return self
        floor = zero_floor(self.lines) if self.log_y else None
        named = [(scheme.panel(line.group), scheme.restyle(line)) for line in self.lines if line.group in scheme]
        points = [(scheme.panel(p.group), scheme.restyle_points(p)) for p in self.points if p.group in scheme]
        theory = [(scheme.panel(line.group), scheme.restyle(line)) for line in self.theory if line.group in scheme]
        titles = list(dict.fromkeys(title for title, _ in named))
        tips = tuple(dict.fromkeys((scheme.label(line.group), scheme.tip(line.group)) for line in self.lines))
        if len(titles) == 1:
            lines, stars = tuple(line for _, line in named), tuple(p for _, p in points)
            expected = tuple(line for _, line in theory)
            return replace(self, lines=lines, points=stars, theory=expected, tips=tips, left_out=scheme.left_out)
        charts = tuple(
            replace(
                self,
                title=title,
                lines=tuple(line for own, line in named if own == title),
                points=tuple(p for own, p in points if own == title),
                theory=tuple(line for own, line in theory if own == title),
                ghosts=tuple(line for own, line in named if own != title) if scheme.ghosts else (),
                floor=floor,
                note="", finding="", warning="",
            )
            for title in titles
        )  # fmt: skip
        note = self.note + ("; gray: the other panels" if scheme.ghosts else "")
        same_x = len({float(line.x.max()) for line in self.lines if len(line.x)}) == 1
        return Panels(
            self.title, self.x_label, self.y_label, charts, scheme.facet_name, same_x=same_x, note=note,
            finding=self.finding, warning=self.warning, left_out=scheme.left_out, tips=tips,
        )  # fmt: skip

    def draw_marks(self, ax: Any) -> None:
        """Lines with bands, published stars, reference levels."""
        floor = (self.floor if self.floor is not None else zero_floor(self.lines)) if self.log_y else None
        for ghost in self.ghosts:
            ax.plot(ghost.x, _lift_zeros(ghost.y, floor), color=GHOST, linewidth=pt(0.8), zorder=1)
        for line in self.lines:
            _draw_line(line, ax, floor, named=not self.ghosts)  # the panel's title names its only line
        _draw_theory(self.theory, ax)
        draw_points(self.points, ax)
        if (self.log_y and any((line.high > 0).any() for line in self.lines)) or floor is not None:
            log_y(ax)
        if self.log_x:
            log_x(ax)
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
        if (self.log_y and zero_floor(self.lines) is not None) or not all(
            np.isfinite(line.y[-1]) for line in self.lines
        ):
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
        there = np.flatnonzero(np.isfinite(y))
        if len(there) == 0:
            return f"{label}: no numbers"
        places = [self._place(x[end]) for end in (there[0], there[-1])]
        first, last = (place if isinstance(place, str) else f"{place:g}" for place in places)
        return f"{label}: {written(float(y[there[0]]))} at {first}, {written(float(y[there[-1]]))} at {last}"


def _draw_line(line: Line, ax: Any, floor: float | None, *, named: bool) -> None:
    s = stroke(line.style)
    y, low, high = (_lift_zeros(values, floor) for values in (line.y, line.low, line.high))
    if not np.array_equal(low, high, equal_nan=True):
        ax.fill_between(line.x, low, high, color=s.color, alpha=0.16, linewidth=0)
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


SMALLEST = 1e-300
"""Nothing is drawn below: a log axis needs room above the smallest number there is."""


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


def _lift_zeros(values: Numbers, floor: float | None) -> Numbers:
    return values if floor is None else np.where(values == 0, floor, values)

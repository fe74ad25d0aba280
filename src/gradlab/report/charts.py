"""Charts as data that can draw themselves on axes: lines with bands, and boxes.

On a log axis exact zeros are drawn on a marked floor below the smallest positive value, never dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.report.log_axis import log_x, log_y
from gradlab.report.look import GRID, INK, SOFT, WARNING, plain, stroke

Numbers = NDArray[np.float64]
Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]
BOX = (0.05, 0.25, 0.5, 0.75, 0.95)
NOTE_WIDTH, LONGEST = 104, 62
"""Letters in a line of a note, and in a name of the legend."""


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
class Points:
    """Published numbers, drawn as hollow stars in the color of their group; `label` explains the star."""

    label: str
    x: Numbers
    y: Numbers
    style: int


class Chart(ABC):
    """Title, labels and a note; a kind of chart says how its marks are drawn."""

    title: str
    x_label: str
    y_label: str
    note: str

    @property
    def note_drop(self) -> int:
        """How far below the axes the note stands, in points."""
        return 40

    @abstractmethod
    def marks(self, ax: Any) -> None:
        """Draw lines, boxes or whatever it is, without the frame."""

    @abstractmethod
    def table(self) -> Rows:
        """All that it shows, as a header and rows."""

    @abstractmethod
    def words(self) -> str:
        """What a reader who cannot see it has to know, from its numbers."""

    @property
    def description(self) -> str:
        """The alternative text of the picture."""
        return f"{self.title}: {self.y_label} against {self.x_label}. {self.words()}"


@dataclass(frozen=True)
class LineChart(Chart):
    """Everything that a line figure shows."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    points: tuple[Points, ...] = ()
    log_y: bool = False
    log_x: bool = False
    whole_x: bool = False
    levels: tuple[tuple[float, str], ...] = ()
    """Horizontal reference lines with their names."""
    note: str = ""

    def marks(self, ax: Any) -> None:
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

    def words(self) -> str:
        """Every line from its first point to its last."""
        return "; ".join(_from_to(line.label, line.x, line.y) for line in self.lines) + "."


@dataclass(frozen=True)
class BoxChart(Chart):
    """Distributions side by side: one box (5, 25, 50, 75, 95 %) per place."""

    title: str
    x_label: str
    y_label: str
    places: tuple[int, ...]
    samples: tuple[Numbers, ...]
    points: tuple[Points, ...] = ()
    log_y: bool = True
    note: str = ""
    levels: tuple[tuple[float, str], ...] = ((1.0, "equal"),)

    def marks(self, ax: Any) -> None:
        """One box per place, published stars, reference levels."""
        _draw_boxes(self, ax)

    def table(self) -> Rows:
        """The five numbers of every box."""
        quantiles = [np.quantile(sample, BOX).tolist() for sample in self.samples]
        header = (self.x_label, *(f"{100 * q:.0f} %" for q in BOX))
        return header, [(place, *values) for place, values in zip(self.places, quantiles, strict=True)]

    def words(self) -> str:
        """The median of every box."""
        medians = [f"{place}: {np.median(s):.3g}" for place, s in zip(self.places, self.samples, strict=True)]
        return f"Medians by {self.x_label}: {', '.join(medians)}."


def draw(chart: Chart, ax: Any) -> None:
    """Draw a chart on axes."""
    chart.marks(ax)
    columns, rows = _legend_shape(ax)
    ax.set_title(plain(chart.title), pad=10 + 13.5 * rows)
    ax.set_xlabel(chart.x_label)
    ax.set_ylabel(chart.y_label)
    if chart.note:
        note = "\n".join(fill(line, NOTE_WIDTH) for line in chart.note.split("\n"))
        ax.annotate(
            note, (0, 0), (0, -chart.note_drop + 3), xycoords="axes fraction",
            textcoords="offset points", color=WARNING if chart.note.startswith("NOT A CONTROLLED") else SOFT,
            fontsize=8, va="top",
        )  # fmt: skip
    if not ax.get_legend_handles_labels()[1]:
        return
    spacing = {"borderaxespad": 0, "handlelength": 2.6, "columnspacing": 1.4}
    ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.985), ncols=columns, **spacing)


def _from_to(label: str, x: Numbers, y: Numbers) -> str:
    there = np.flatnonzero(np.isfinite(y))
    if len(there) == 0:
        return f"{label}: no numbers"
    first, last = there[0], there[-1]
    return f"{label}: {y[first]:.3g} at {x[first]:g}, {y[last]:.3g} at {x[last]:g}"


def _legend_shape(ax: Any) -> tuple[int, int]:
    """Columns and rows of a legend above the axes that is no wider than they are."""
    labels = ax.get_legend_handles_labels()[1]
    longest = max((len(text) for text in labels), default=1)
    columns = max(1, min(4, 72 // (longest + 7)))
    return columns, -(-len(labels) // columns)


def legend_text(label: str) -> str:
    """A name as matplotlib shows it: short enough, and not hidden for its underscore."""
    text = plain(label if len(label) <= LONGEST else label[: LONGEST - 1] + "…")
    return f" {text}" if text.startswith("_") else text


def _draw_lines(chart: LineChart, ax: Any) -> None:
    floor = _floor(chart) if chart.log_y else None
    for line in chart.lines:
        s = stroke(line.style)
        marker = s.marker if line.markers else None
        y, low, high = (_lifted(values, floor) for values in (line.y, line.low, line.high))
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
        _whole_ticks(ax, chart.lines)
    draw_levels(chart.levels, ax)
    if floor is not None and any((line.low == 0).any() for line in chart.lines):
        ax.axhline(floor, color=INK, linewidth=0.8)
        ax.annotate(
            "exactly 0", (1, floor), (-2, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
            ha="right", color=INK, fontsize=8,
        )  # fmt: skip


def draw_points(groups: tuple[Points, ...], ax: Any) -> None:
    """Stars in the color of their group; one neutral star explains them all."""
    star = {"marker": "*", "linestyle": "none", "markersize": 12, "markerfacecolor": "white", "zorder": 5}
    for points in groups:
        ax.plot(points.x, points.y, color=stroke(points.style).color, **star)
    if groups:
        ax.plot([], [], color=SOFT, label=groups[0].label, **star)


def draw_levels(levels: tuple[tuple[float, str], ...], ax: Any, color: str = SOFT) -> None:
    """Dotted lines at values that mean something, with their names."""
    for index, (value, name) in enumerate(levels):  # names at alternate ends: two levels may be close
        ax.axhline(value, color=color, linewidth=1, linestyle=(0, (1, 2)))
        end, side = (1, "right") if index % 2 == 0 else (0.3, "left")  # not at the start, where curves fall steeply
        ax.annotate(
            name, (end, value), (-2, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
            ha=side, color=color, fontsize=8,
        )  # fmt: skip


def _whole_ticks(ax: Any, lines: tuple[Line, ...]) -> None:
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


def _lifted(values: Numbers, floor: float | None) -> Numbers:
    return values if floor is None else np.where(values == 0, floor, values)


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
        patch_artist=True,
        boxprops={"facecolor": color, "alpha": 0.25, "edgecolor": color},
        medianprops={"color": color, "linewidth": 2.4},
        whiskerprops={"color": color},
        capprops={"color": color},
    )
    ax.plot([], [], color=color, linewidth=2.4, label="median; box 25–75 %, whiskers 5–95 %")
    draw_points(chart.points, ax)
    if chart.log_y:
        log_y(ax)
    draw_levels(chart.levels, ax, INK)
    ax.grid(axis="x", visible=False)
    ax.set_facecolor("white")
    ax.tick_params(axis="x", color=GRID)

"""What every chart is: data with a title, labels and a note, that can draw itself on axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.report.look import SOFT, WARNING, plain, stroke

Numbers = NDArray[np.float64]
Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""A header and rows."""
Level = tuple[float, str]
"""A horizontal reference line: its value and its name."""
NOTE_WIDTH, LONGEST = 104, 62
"""Characters in a line of a note, and in a name of the legend."""


@dataclass(frozen=True)
class Points:
    """Published numbers, drawn as hollow stars in the color of their group; `label` explains the star."""

    label: str
    x: Numbers
    y: Numbers
    style: int


@dataclass(frozen=True)
class Chart(ABC):
    """Title, labels and a note; each kind of chart draws its own marks."""

    title: str
    x_label: str
    y_label: str
    note: str = field(default="", kw_only=True)
    """One line below the axes: what the marks are, what was left out."""
    warning: str = field(default="", kw_only=True)
    """Why the comparison must not be trusted; shown above the note, in red. Empty for a fair one."""

    @property
    def note_drop(self) -> int:
        """How far below the axes the note stands, in points."""
        return 40

    @property
    def full_note(self) -> str:
        """Warning and note, one below the other."""
        return "\n".join(text for text in (self.warning, self.note) if text)

    @abstractmethod
    def draw_marks(self, ax: Any) -> None:
        """Draw lines, boxes or other marks on the axes, without title, labels and note."""

    @abstractmethod
    def table(self) -> Rows:
        """Everything the chart shows, as a header and rows."""

    @abstractmethod
    def describe(self) -> str:
        """The numbers that a reader who cannot see the chart needs."""

    @property
    def description(self) -> str:
        """The alternative text of the picture."""
        return f"{self.title}: {self.y_label} against {self.x_label}. {self.describe()}"


def draw(chart: Chart, ax: Any) -> None:
    """Draw a chart on axes."""
    chart.draw_marks(ax)
    columns, rows = _legend_shape(ax)
    ax.set_title(plain(chart.title), pad=10 + 13.5 * rows)
    ax.set_xlabel(chart.x_label)
    ax.set_ylabel(chart.y_label)
    if chart.full_note:
        note = "\n".join(fill(line, NOTE_WIDTH) for line in chart.full_note.split("\n"))
        ax.annotate(
            note, (0, 0), (0, -chart.note_drop + 3), xycoords="axes fraction",
            textcoords="offset points", color=WARNING if chart.warning else SOFT,
            fontsize=8, va="top",
        )  # fmt: skip
    if not ax.get_legend_handles_labels()[1]:
        return
    spacing = {"borderaxespad": 0, "handlelength": 2.6, "columnspacing": 1.4}
    ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.985), ncols=columns, **spacing)


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


def draw_points(groups: tuple[Points, ...], ax: Any) -> None:
    """Stars in the color of their group; one neutral star explains them all."""
    star = {"marker": "*", "linestyle": "none", "markersize": 12, "markerfacecolor": "white", "zorder": 5}
    for points in groups:
        ax.plot(points.x, points.y, color=stroke(points.style).color, **star)
    if groups:
        ax.plot([], [], color=SOFT, label=groups[0].label, **star)


def draw_levels(levels: tuple[Level, ...], ax: Any, color: str = SOFT) -> None:
    """Dotted lines at values that mean something, with their names."""
    for index, (value, name) in enumerate(levels):  # names at alternate ends: two levels may be close
        ax.axhline(value, color=color, linewidth=1, linestyle=(0, (1, 2)))
        end, side = (1, "right") if index % 2 == 0 else (0.3, "left")  # not at the start, where curves fall steeply
        ax.annotate(
            name, (end, value), (-2, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
            ha=side, color=color, fontsize=8,
        )  # fmt: skip

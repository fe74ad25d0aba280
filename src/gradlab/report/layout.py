"""Where everything in a figure stands: computed from the sizes of texts before anything is drawn.

Lengths are points. Title and legend stand above the axes, names of lines at their right ends where they fit, notes
below. Nothing is drawn twice to find out how large it is, which is what makes figures cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.report.axes_ticks import settle_x, settle_y
from gradlab.report.charts.base import Chart, End
from gradlab.report.charts.panels import Panels
from gradlab.report.look import INK, SOFT, WARNING, plain, pt
from gradlab.report.text_size import text_height, text_width, wrapped

PANEL = 138.0
"""The least width of a panel in a grid, at the usual size of text."""
GAP, PAD = 9.0, 6.0


@dataclass(frozen=True)
class Box:
    """A rectangle on the canvas, in points from its lower left corner."""

    left: float
    bottom: float
    width: float
    height: float


@dataclass(frozen=True)
class Grid:
    """Panels in rows and columns."""

    rows: int
    columns: int

    def place(self, index: int) -> tuple[int, int]:
        """(row, column) of a panel, from the top left."""
        return index // self.columns, index % self.columns


def make_grid(chart: Chart, width: float) -> Grid:
    """As few rows as the width allows, and rows of even length."""
    count = len(chart.panels)
    own = isinstance(chart, Panels) and chart.own_labels
    most = max(1, int(width // pt(PANEL * (1.05 if own else 1.0))))
    rows = -(-count // most)
    return Grid(rows, -(-count // rows))


def fit_grid(chart: Chart, width: float, height: float) -> Grid:
    """The grid in which panels are largest, where the height is given too."""
    count = len(chart.panels)
    grids = [Grid(-(-count // columns), columns) for columns in range(1, count + 1)]
    return max(grids, key=lambda grid: min(width / grid.columns, 1.5 * height / grid.rows))


def place_chart(chart: Chart, canvas: Any, box: Box | None = None, grid: Grid | None = None) -> None:
    """Draw a chart on a canvas, inside a box of it."""
    width, height = (72 * inches for inches in canvas.get_size_inches())
    box = box or Box(pt(PAD), pt(PAD), width - 2 * pt(PAD), height - 2 * pt(PAD))
    _Placement(chart, canvas, box, grid or make_grid(chart, box.width)).draw()


class _Placement:
    """One chart on its way to its places."""

    def __init__(self, chart: Chart, canvas: Any, box: Box, grid: Grid) -> None:
        self.chart, self.canvas, self.box = chart, canvas, box
        self.size = tuple(72 * inches for inches in canvas.get_size_inches())
        self.grid = grid
        self.axes = []
        for index, panel in enumerate(chart.panels):
            ax = canvas.add_axes((0.1, 0.1, 0.8, 0.8), label=f"{box.left:.0f} {box.bottom:.0f} {index}")
            panel.draw_marks(ax)
            self.axes.append(ax)
        self.same_x, self.same_y = chart.shares
        self.own = isinstance(chart, Panels) and chart.own_labels
        self.several = len(self.axes) > 1

    def draw(self) -> None:
        """Texts from above and below, axes in what is left."""
        self._share_limits()
        top = self.box.bottom + self.box.height - self._draw_title()
        bottom = self.box.bottom + self._draw_note()
        handles = self._legend_entries()
        ends = () if self.several else self._ends(top - bottom)
        named = {end.label for end in ends}
        handles = [(handle, text) for handle, text in handles if text.strip() not in {plain(n) for n in named}]
        top -= self._draw_legend(handles, top)
        right = max((text_width(end.label, pt(9)) for end in ends), default=0.0)
        key = self._key_width()
        self._place_axes(bottom, top, right + (pt(8) if ends else 0.0), key)
        if ends and not self._name_ends(ends):  # they do not fit after all: a legend
            everything = self._legend_entries()
            top -= self._draw_legend(everything, top)
            self._place_axes(bottom, top, 0.0, key)
        for ax, panel in zip(self.axes, self.chart.panels, strict=True):
            panel.finish(ax)

    # ------------------------------------------------------------------ texts

    def _text(self, x: float, y: float, text: str, **style: Any) -> Any:
        return self.canvas.text(x / self.size[0], y / self.size[1], text, **style)

    def _draw_title(self) -> float:
        if not self.chart.title:
            return 0.0
        size = pt(11.5)
        text = wrapped(self.chart.title, self.box.width, size, bold=True)
        top = self.box.bottom + self.box.height
        self._text(self.box.left, top, plain(text), va="top", ha="left", fontsize=size, fontweight="bold")
        return text_height(text, size) + pt(5)

    def _draw_note(self) -> float:
        used = 0.0
        size = pt(8)
        for text, color in ((self.chart.left_out, SOFT), (self.chart.note, SOFT), (self.chart.warning, WARNING)):
            if not text:
                continue
            lines = wrapped(text, self.box.width, size)
            at = self.box.bottom + used
            self._text(
                self.box.left, at, plain(lines), va="bottom", ha="left", fontsize=size, color=color, linespacing=1.1
            )
            used += text_height(lines, size) + pt(2)
        return used + (pt(3) if used else 0.0)

    def _legend_entries(self) -> list[tuple[Any, str]]:
        found: dict[str, Any] = {}
        for ax in self.axes:
            for handle, text in zip(*ax.get_legend_handles_labels(), strict=True):
                found[text] = _neutral(found[text], handle) if text in found else handle
        return [(handle, text) for text, handle in found.items()]

    def _draw_legend(self, entries: Sequence[tuple[Any, str]], top: float) -> float:
        if not entries:
            return 0.0
        size, handle, between = pt(9), 2.4, 1.4
        width = self.box.width
        texts = [wrapped(text, width - (handle + 2) * size, size) for _, text in entries]
        columns = 1
        for count in range(min(len(texts), 6), 0, -1):
            pieces = [piece for piece in np.array_split(np.array(texts, object), count) if len(piece)]
            needed = sum(max(text_width(text, size) for text in piece) + (handle + 0.8) * size for piece in pieces)
            if needed + (len(pieces) - 1) * between * size <= width:
                columns = count
                break
        legend = self.canvas.legend(
            [handle for handle, _ in entries], texts, loc="upper left", ncols=columns,
            bbox_to_anchor=(self.box.left / self.size[0], top / self.size[1]), borderaxespad=0, borderpad=0,
            handlelength=handle, handletextpad=0.6, columnspacing=between, labelspacing=0.3, fontsize=size,
        )  # fmt: skip
        tips = dict(self.chart.tips)
        for text, (_, name) in zip(legend.get_texts(), entries, strict=True):
            if tip := tips.get(name.strip().replace(r"\$", "$")):
                text.set_gid(tip_id(name.strip().replace(r"\$", "$"), tip))
        pieces = [piece for piece in np.array_split(np.array(texts, object), columns) if len(piece)]
        tallest = max(sum(text_height(text, size) + 0.3 * size for text in piece) for piece in pieces)
        return tallest + pt(3)

    # ------------------------------------------------------------------ names at the ends of lines

    def _ends(self, height: float) -> tuple[End, ...]:
        """The ends of lines that can have their names beside them; none if a legend is the better choice."""
        ends = self.chart.panels[0].line_ends()
        if not 2 <= len(ends) <= 6:
            return ()
        widest = max(text_width(end.label, pt(9)) for end in ends)
        return ends if widest < 0.3 * self.box.width else ()

    def _name_ends(self, ends: Sequence[End]) -> bool:
        """Write the names beside the ends, moved apart a little where they touch; False if that is not enough."""
        (ax,) = self.axes
        place = ax.get_position()
        size, low, high = pt(9), place.y0 * self.size[1], place.y1 * self.size[1]
        each = 1.12 * size
        if len({end.y for end in ends}) < len(ends):
            return False
        wanted = sorted(((_fraction(ax.yaxis, end.y) * (high - low) + low), end) for end in ends)
        found = _move_apart([y for y, _ in wanted], each)
        far = max(abs(at - y) for at, (y, _) in zip(found, wanted, strict=True))
        if far > 1.3 * size or found[-1] > high + size or found[0] < low - size / 2:
            return False
        tips = dict(self.chart.tips)
        for at, (_, end) in zip(found, wanted, strict=True):
            x = place.x1 * self.size[0] + pt(5)
            text = self._text(x, at, plain(end.label), color=end.color, fontsize=size, va="center", ha="left")
            if tip := tips.get(end.label):
                text.set_gid(tip_id(end.label, tip))
        return True

    # ------------------------------------------------------------------ axes

    def _share_limits(self) -> None:
        for shared, read, write in (
            (self.same_x, "get_xlim", "set_xlim"),
            (self.same_y, "get_ylim", "set_ylim"),
        ):
            if shared and self.several:
                limits = [getattr(ax, read)() for ax in self.axes]
                for ax in self.axes:
                    getattr(ax, write)(min(low for low, _ in limits), max(high for _, high in limits))

    def _key_width(self) -> float:
        return pt(64) if self.chart.has_key else 0.0

    def _place_axes(self, bottom: float, top: float, right: float, key: float) -> None:
        """Put every panel in its place, with its ticks and labels; what an earlier call wrote is replaced."""
        for text in getattr(self, "_labels", []):
            text.remove()
        self._labels: list[Any] = []
        rows, columns = self.grid.rows, self.grid.columns
        x_text, y_text = self.chart.x_label, "" if self.chart.text_rows else self.chart.y_label  # rows name themselves
        label, title = pt(10) * 1.25, pt(9.2) * 1.3 * self._title_lines() if self.several else 0.0
        height = (top - bottom - (0.0 if self.own else label)) / rows - title - pt(16)
        room = max(height - pt(14) if self.own else top - bottom - pt(30), pt(40))
        texts = [panel.y_label for panel in self.chart.panels] if self.own else [y_text]
        upright = max((_folded(text, room).count("\n") + 1 for text in texts if text), default=0)
        own_y = upright * label + pt(4) if self.own else 0.0
        outer_y = 0.0 if self.own or not y_text else upright * label + pt(5)
        y_width = max(settle_y(ax, max(height, pt(20))) for ax in self.axes) + pt(6)
        ticks_everywhere = not self.same_y or self.own
        left = self.box.left + outer_y
        width = self.box.width - outer_y - right - key
        first = y_width + own_y
        between = (y_width + own_y + pt(GAP)) if ticks_everywhere else pt(GAP) * 1.3
        cell = (width - first - (columns - 1) * between - pt(4)) / columns
        overhang = 0.0
        x_height = 0.0
        for ax in self.axes:
            tall, over = settle_x(ax, max(cell, pt(20)))
            x_height, overhang = max(x_height, tall), max(overhang, over)
        if overhang > right + pt(4):
            cell -= (overhang - right - pt(4)) / columns
        x_height += pt(6)
        below = x_height + (label if self.own else 0.0)
        outer_x = 0.0 if self.own or not x_text else label
        area = top - bottom - outer_x
        gap_y = below + title + pt(GAP) if not self.same_x else title + pt(GAP)
        tall = (area - below - title - (rows - 1) * gap_y - pt(3)) / rows
        for index, (ax, panel) in enumerate(zip(self.axes, self.chart.panels, strict=True)):
            row, column = self.grid.place(index)
            x = left + first + column * (cell + between)
            y = top - title - pt(2) - tall - row * (tall + gap_y)
            settle_y(ax, max(tall, pt(20)))
            ax.set_position((x / self.size[0], y / self.size[1], cell / self.size[0], max(tall, 1) / self.size[1]))
            if self.same_y and not self.own and column > 0:
                ax.tick_params(axis="y", labelleft=False)
            if self.same_x and not self.own and index + columns < len(self.axes):
                ax.tick_params(axis="x", labelbottom=False)
            if self.several and panel.title:
                text = plain(wrapped(panel.title, cell, pt(9.2), bold=True))
                self._say(x, y + tall + pt(3), text, va="bottom", ha="left", fontsize=pt(9.2), fontweight="bold")
            if self.own:
                self._say(x + cell / 2, y - x_height, panel.x_label, va="top", ha="center")
                self._say_up(x - y_width - pt(3), y + tall / 2, panel.y_label, room)
        middle = bottom + outer_x + below + (area - below) / 2
        if not self.own and x_text:
            span = columns * cell + (columns - 1) * between
            self._say(left + first + span / 2, bottom, plain(x_text), va="bottom", ha="center")
        if not self.own and y_text:
            self._say_up(self.box.left + upright * label, middle, y_text, room)
        if key and not hasattr(self, "_key"):
            self._draw_key(bottom + outer_x + below, top - title)

    def _title_lines(self) -> int:
        """How many lines the longest panel title takes in a cell of about the right width."""
        beside = 72 if self.own else 18 if self.same_y else 40
        cell = (self.box.width - self._key_width() - pt(30)) / self.grid.columns - pt(beside)
        return max(
            1 + wrapped(p.title, cell, pt(9.2), bold=True).count("\n") if p.title else 0 for p in self.chart.panels
        )

    def _draw_key(self, bottom: float, top: float) -> None:
        height = min(top - bottom, pt(190))
        x = self.box.left + self.box.width - pt(50)
        self._key = self.canvas.add_axes(
            (x / self.size[0], (top - height) / self.size[1], pt(10) / self.size[0], height / self.size[1]),
            label=f"key {self.box.left:.0f} {self.box.bottom:.0f}",
        )
        text = self.chart.draw_key(self._key)
        settle_y(self._key, height)
        self._say_up(x - pt(3), top - height / 2, text, height, size=pt(8.5))

    def _say(self, x: float, y: float, text: str, **style: Any) -> None:
        self._labels.append(self._text(x, y, text, **style))

    def _say_up(self, x: float, y: float, text: str, room: float, size: float | None = None) -> None:
        """An upright label whose right edge is at x, in several lines if it is long."""
        wanted = size or pt(10)
        self._say(
            x,
            y,
            plain(_folded(text, room, wanted)),
            va="center",
            ha="right",
            rotation=90,
            fontsize=wanted,
            linespacing=1.1,
        )


def _move_apart(places: Sequence[float], least: float) -> list[float]:
    """Places in order, moved as little as needed to have at least this distance."""
    found = list(places)
    for _ in range(200):
        moved = False
        for index in range(len(found) - 1):
            missing = least - (found[index + 1] - found[index])
            if missing > 1e-3:
                found[index] -= missing / 2
                found[index + 1] += missing / 2
                moved = True
        if not moved:
            break
    return found


def _folded(text: str, room: float, size: float | None = None) -> str:
    return wrapped(text, room, size or pt(10))


def _neutral(handle: Any, other: Any) -> Any:
    """What explains two marks of the same name: in ink, if they are lines of different colors."""
    from matplotlib.lines import Line2D

    if not (isinstance(handle, Line2D) and isinstance(other, Line2D)) or handle.get_color() == other.get_color():
        return handle
    neutral = copy(handle)
    neutral.set(color=INK, marker="None")
    return neutral


def tip_id(name: str, tip: str) -> str:
    """The id of a text in an SVG file that has a tooltip."""
    from hashlib import sha256

    return f"tip-{sha256(f'{name} {tip}'.encode()).hexdigest()[:12]}"


def _fraction(axis: Any, value: float) -> float:
    """Where a value stands between the ends of an axis, 0 to 1."""
    low, high = axis.get_view_interval()
    forward = axis.get_transform().transform
    a, b, v = (float(forward(np.array([each]))[0]) for each in (low, high, value))
    return (v - a) / (b - a) if b != a else 0.5

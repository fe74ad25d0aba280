"""A chart on a figure, laid out by matplotlib: title, legend, panels with their ticks, names at line ends, notes.

Constrained layout measures every text and gives the axes what is left. It reserves room for one text per side of a
figure, so title, notes and legend stand in figures nested into each other. Ticks depend on the length of an axis, which
the layout decides: it is run to learn the lengths, and again if they ask for other ticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from gradlab.report.charts import Chart, Panels
from gradlab.report.charts.base import End
from gradlab.report.look import INK, SOFT, WARNING, plain, pt
from gradlab.report.ticks import HEIGHT, AxisTicks, fraction, text_width, wrapped

PANEL = 138.0
"""The least width of a panel in a grid, at the usual size of text."""
PAD, GAP = 5.0, 0.02
"""Points around every text and axes; between panels, as a share of the figure."""


def make_grid(chart: Chart, width: float) -> tuple[int, int]:
    """Rows and columns of panels: as few rows as the width allows, and rows of even length."""
    count = len(chart.panels)
    most = max(1, int(width // pt(PANEL * (1.05 if _has_own_labels(chart) else 1.0))))
    rows = -(-count // most)
    return rows, -(-count // rows)


def fit_grid(chart: Chart, width: float, height: float) -> tuple[int, int]:
    """The grid in which panels are largest, where the height is given too."""
    count = len(chart.panels)
    grids = [(-(-count // columns), columns) for columns in range(1, count + 1)]
    return max(grids, key=lambda grid: min(width / grid[1], 1.5 * height / grid[0]))


def lay_out(canvas: Any, placed: Sequence[PlacedChart]) -> None:
    """Give all charts of a canvas their places; nothing moves afterwards, however often the canvas is drawn."""
    engine = canvas.get_layout_engine()
    engine.set(w_pad=pt(PAD) / 72, h_pad=0.8 * pt(PAD) / 72, wspace=GAP, hspace=GAP)
    for chart in placed:
        chart.settle_ticks()
    engine.execute(canvas)
    changed = [chart.settle_ticks() | chart.name_ends() for chart in placed]
    if any(changed):
        engine.execute(canvas)
    canvas.set_layout_engine("none")
    for chart in placed:
        chart.finish()


class PlacedChart:
    """A chart that was drawn on a figure, or on one nested into it."""

    def __init__(self, chart: Chart, frame: Any, grid: tuple[int, int]) -> None:
        self.chart, self.rows, self.columns = chart, *grid
        self.width, self.height = 72 * frame.bbox.width / frame.dpi, 72 * frame.bbox.height / frame.dpi
        self.own_labels = _has_own_labels(chart)
        self.frame = self._write_around(frame)
        self.axes = self._draw_panels()
        self.ticks = [AxisTicks(axis) for ax in self.axes for axis in (ax.xaxis, ax.yaxis)]
        self._draw_key()
        self.ends = self._find_ends()
        self._draw_legend(without={end.label for end in self.ends})

    # ------------------------------------------------------------------ texts

    def _write_around(self, frame: Any) -> Any:
        """Title and notes, each in a figure around the next; gives the innermost, for legend and axes."""
        left, width = pt(PAD) / self.width, self.width - 2 * pt(PAD)
        if self.chart.title:
            size = pt(11.5)
            text = plain(wrapped(self.chart.title, width, size, bold=True))
            frame.suptitle(text, x=left, ha="left", fontsize=size, fontweight="bold")
        for text, color in ((self.chart.left_out, SOFT), (self.chart.note, SOFT), (self.chart.warning, WARNING)):
            if text:
                lines = plain(wrapped(text, width, pt(8)))
                frame.supxlabel(lines, x=left, ha="left", fontsize=pt(8), color=color, linespacing=1.1)
                frame = frame.subfigures()
        return frame.subfigures()

    def _draw_legend(self, without: set[str]) -> None:
        entries = [(handle, text) for handle, text in self._legend_entries() if _name(text) not in without]
        if not entries:
            return
        size, handle, between = pt(9), 2.4, 1.4
        texts = [wrapped(text, self.width - (handle + 2) * size, size) for _, text in entries]
        columns = 1
        for count in range(min(len(texts), 6), 0, -1):
            pieces = [piece for piece in np.array_split(np.array(texts, object), count) if len(piece)]
            needed = sum(max(text_width(text, size) for text in piece) + (handle + 0.8) * size for piece in pieces)
            if needed + (len(pieces) - 1) * between * size <= self.width - 2 * pt(PAD):
                columns = count
                break
        legend = self.frame.legend(
            [handle for handle, _ in entries], texts, loc="outside upper left", ncols=columns,
            borderaxespad=pt(PAD) / size, borderpad=0, handlelength=handle, handletextpad=0.6, columnspacing=between,
            labelspacing=0.3, fontsize=size,
        )  # fmt: skip
        for text, (_, name) in zip(legend.get_texts(), entries, strict=True):
            self._add_tip(text, _name(name))

    def _legend_entries(self) -> list[tuple[Any, str]]:
        entries: dict[str, Any] = {}
        for ax in self.axes:
            for handle, text in zip(*ax.get_legend_handles_labels(), strict=True):
                entries[text] = _neutral(entries[text], handle) if text in entries else handle
        return [(handle, text) for text, handle in entries.items()]

    def _add_tip(self, text: Any, name: str) -> None:
        if tip := dict(self.chart.tips).get(name):
            text.set_gid(tip_id(name, tip))

    # ------------------------------------------------------------------ panels

    def _draw_panels(self) -> list[Any]:
        """Every panel on its axes, with labels of its own or those of all."""
        panels, several = self.chart.panels, len(self.chart.panels) > 1
        grid = self.frame.add_gridspec(self.rows, self.columns)
        axes = [
            self.frame.add_subplot(grid[index // self.columns, index % self.columns]) for index in range(len(panels))
        ]
        for ax, panel in zip(axes, panels, strict=True):
            panel.draw_marks(ax)
        room = 0.8 * self.height / (self.rows if self.own_labels else 1)
        cell = self.width / self.columns - pt(72 if self.own_labels else 40)
        for ax, panel in zip(axes, panels, strict=True):
            if several and panel.title:
                text = plain(wrapped(panel.title, cell, pt(9.2), bold=True))
                ax.set_title(text, loc="left", fontsize=pt(9.2), fontweight="bold", pad=pt(3))
            if self.own_labels:
                ax.set_xlabel(plain(panel.x_label), labelpad=pt(2))
                ax.set_ylabel(plain(wrapped(panel.y_label, room - pt(30), pt(10))), labelpad=pt(2))
        if not self.own_labels:
            self.frame.supxlabel(plain(self.chart.x_label), fontsize=pt(10))
            if not self.chart.text_rows:  # rows name themselves
                self.frame.supylabel(plain(wrapped(self.chart.y_label, room, pt(10))), fontsize=pt(10))
        if several and isinstance(self.chart, Panels):
            self._share_limits(axes, self.chart)
        return axes

    def _share_limits(self, axes: list[Any], chart: Panels) -> None:
        """One range for all panels; ticks at the left and at the bottom alone, where they are the same."""
        for shared, name in ((chart.same_x, "xlim"), (chart.same_y, "ylim")):
            if shared:
                limits = [getattr(ax, f"get_{name}")() for ax in axes]
                for ax in axes:
                    getattr(ax, f"set_{name}")(min(low for low, _ in limits), max(high for _, high in limits))
        for index, ax in enumerate(axes if not self.own_labels else ()):
            ax.tick_params(axis="y", labelleft=not chart.same_y or index % self.columns == 0)
            ax.tick_params(axis="x", labelbottom=not chart.same_x or index + self.columns >= len(axes))

    def _draw_key(self) -> None:
        if self.chart.key:
            drawn = next(ax for ax in self.axes if ax.images)
            self.ticks.append(draw_key(drawn, self.axes, self.chart.key))

    def settle_ticks(self) -> bool:
        """Ticks for the lengths that the axes have now; says whether any changed."""
        changed = False
        for ticks in self.ticks:
            box = ticks.axis.axes.get_window_extent()
            changed |= ticks.settle(max(72 * (box.height if ticks.upright else box.width) / self.frame.dpi, pt(20)))
        return changed

    def finish(self) -> None:
        """What depends on where the axes stand."""
        for ax, panel in zip(self.axes, self.chart.panels, strict=True):
            panel.finish(ax)

    # ------------------------------------------------------------------ names at the ends of lines

    def _find_ends(self) -> dict[End, Any]:
        """The ends of lines with their names beside them; none if a legend is the better choice."""
        ends = self.chart.panels[0].line_ends() if len(self.axes) == 1 else ()
        if not 2 <= len(ends) <= 6 or max(text_width(end.label, pt(9)) for end in ends) >= 0.3 * self.width:
            return {}
        return {end: self._write_end(end) for end in ends}

    def _write_end(self, end: End, moved: float = 0.0) -> Any:
        (ax,) = self.axes
        text = ax.annotate(
            plain(end.label), (1, end.y), (pt(5), moved), xycoords=ax.get_yaxis_transform(), fontsize=pt(9),
            textcoords="offset points", color=end.color, va="center", ha="left", annotation_clip=False,
        )  # fmt: skip
        self._add_tip(text, end.label)
        return text

    def name_ends(self) -> bool:
        """Move the names apart a little where they touch; says whether a legend had to be drawn instead."""
        if not self.ends:
            return False
        (ax,) = self.axes
        size, high = pt(9), 72 * ax.get_window_extent().height / self.frame.dpi
        wanted = sorted(((fraction(ax.yaxis, end.y) * high, end) for end in self.ends), key=lambda each: each[0])
        places = _move_apart([y for y, _ in wanted], HEIGHT * size)
        moved = [place - y for place, (y, _) in zip(places, wanted, strict=True)]
        for text in self.ends.values():
            text.remove()
        distinct = len({end.y for end in self.ends}) == len(self.ends)
        if distinct and max(map(abs, moved)) <= 1.3 * size and places[-1] <= high + size and places[0] >= -size / 2:
            for far, (_, end) in zip(moved, wanted, strict=True):
                self._write_end(end, far)
            return False
        for legend in list(self.frame.legends):
            legend.remove()
        self._draw_legend(without=set())
        return True


def draw_key(drawn: Any, beside: Any, label: str) -> AxisTicks:
    """The key of colors of an image beside some axes; gives its ticks, still to be settled."""
    key = drawn.figure.colorbar(drawn.images[0], ax=beside, aspect=18, shrink=0.9, pad=0.02)
    key.outline.set_visible(False)
    key.set_label(label, fontsize=pt(8.5))
    key.ax.grid(visible=False)
    return AxisTicks(key.ax.yaxis)


def tip_id(name: str, tip: str) -> str:
    """The id of a text in an SVG file that has a tooltip."""
    from hashlib import sha256

    return f"tip-{sha256(f'{name} {tip}'.encode()).hexdigest()[:12]}"


def _has_own_labels(chart: Chart) -> bool:
    return isinstance(chart, Panels) and chart.own_labels


def _name(text: str) -> str:
    """The name that a text of the legend shows."""
    return text.strip().replace(r"\$", "$")


def _neutral(handle: Any, other: Any) -> Any:
    """What explains two marks of the same name: in ink, if they are lines of different colors."""
    from matplotlib.lines import Line2D

    if not (isinstance(handle, Line2D) and isinstance(other, Line2D)) or handle.get_color() == other.get_color():
        return handle
    neutral = copy(handle)
    neutral.set(color=INK, marker="None")
    return neutral


def _move_apart(places: Sequence[float], least: float) -> list[float]:
    """Places in order, moved as little as needed to have at least this distance."""
    moved = list(places)
    for _ in range(200):
        touching = False
        for index in range(len(moved) - 1):
            missing = least - (moved[index + 1] - moved[index])
            if missing > 1e-3:
                moved[index] -= missing / 2
                moved[index + 1] += missing / 2
                touching = True
        if not touching:
            break
    return moved

"""Views of the micro-world as matplotlib figures of their last step, and as rows of data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlab.report.draw import make_canvas
from gradlab.report.inside.recording import Recording
from gradlab.report.inside.views import LinePanel, UnitPanel, View
from gradlab.report.log_axis import log_y
from gradlab.report.look import INK, SOFT, look, plain, stroke


def draw_view(view: View, recording: Recording) -> Any:
    """The last step as a matplotlib figure."""
    count = len(view.panels) or len(view.unit_panels)
    with look():
        canvas = make_canvas(4.1 * count, 4.3)
        canvas.suptitle(plain(f"{view.title}, {_moment(recording.steps[-1])}"), x=0.01, ha="left", fontweight="bold")
        if view.unit_panels:
            _draw_unit_panels(view.unit_panels, canvas)
        for index, panel in enumerate(view.panels):
            _draw_panel(panel, canvas.add_subplot(1, count, index + 1))
        return canvas


def view_rows(view: View, recording: Recording) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Everything that a view shows, at every step: a header and rows."""
    rows: list[tuple[Any, ...]] = []
    for panel in view.panels:
        for line in panel.lines:
            for one, values in zip(recording.inspections[line.arm], line.values, strict=True):
                rows += [(panel.title, line.name, one.step, place, v) for place, v in enumerate(values, 1)]
    if view.panels:
        return ("panel", "line", "step", "place", "value"), rows
    for heat in view.unit_panels:
        for one, layers in zip(recording.inspections[heat.arm], heat.values, strict=True):
            rows += [
                (heat.title, one.step, layer, unit, float(value))
                for layer, row in enumerate(layers, 1)
                for unit, value in enumerate(row, 1)
                if not np.isnan(value)
            ]
    return ("arm", "step", "layer", "unit", "value"), rows


def _moment(step: int) -> str:
    return f"after {step:,} step{'' if step == 1 else 's'}" if step else "at initialization"


def _draw_panel(panel: LinePanel, ax: Any) -> None:
    smallest = [v for line in panel.lines for v in line.values[-1] if v is not None and v > 0]
    floor = min(smallest) / 10 if smallest and panel.log else None
    for line in panel.lines:
        s = stroke(line.arm)
        y = [np.nan if v is None else floor if floor is not None and v <= 0 else v for v in line.values[-1]]
        style: Any = {"linewidth": 1.0, "alpha": 0.7, "linestyle": ":"} if line.faint else {"linestyle": s.dashes}
        style |= {"color": s.color, "marker": None if line.faint else s.marker, "markersize": 3.5}
        ax.plot(range(1, len(y) + 1), y, label=plain(line.name), **style)
    if panel.log and smallest:
        log_y(ax)
        if floor is not None and any(v == 0 for line in panel.lines for v in line.values[-1]):
            ax.axhline(floor, color=INK, linewidth=0.8)
            place: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": "right"}
            ax.annotate("exactly 0", (1, floor), (-2, 3), fontsize=7.5, **place)
    ax.set_title(plain(panel.title), fontsize=10)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    ax.legend(fontsize=7.5, loc="upper left", bbox_to_anchor=(-0.02, -0.2), borderaxespad=0)  # below: it hides nothing


def _draw_unit_panels(panels: Sequence[UnitPanel], canvas: Any) -> None:
    last = [panel.values[-1] for panel in panels]
    limit = max(float(np.nanquantile(np.abs(rows), 0.99)) for rows in last) or 1.0
    axes = canvas.subplots(1, len(panels), squeeze=False)[0]
    for panel, rows, ax in zip(panels, last, axes, strict=True):
        extent = (0.5, len(rows) + 0.5, rows.shape[1] + 0.5, 0.5)
        scale: Any = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
        image = ax.imshow(rows.T, aspect="auto", extent=extent, **scale)
        ax.set_title(plain(panel.title), fontsize=10)
        ax.set_xlabel("layer")
        ax.set_ylabel("unit")
        ax.grid(visible=False)
    bar = canvas.colorbar(image, ax=axes, pad=0.02)
    bar.ax.tick_params(labelsize=8, colors=SOFT)

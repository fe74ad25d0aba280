"""Views of the micro-world as charts of their last step; their tables hold every step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradlab.report.charts import Chart, Line, LineChart, Panels, UnitMap
from gradlab.report.charts.base import Rows
from gradlab.report.draw import draw_one
from gradlab.report.inside.recording import Recording
from gradlab.report.inside.views import LinePanel, TheoryLine, UnitPanel, View
from gradlab.report.look import Dashes, stroke
from gradlab.spec.numerals import counted

FAINT: tuple[Dashes, ...] = ((0, (4, 1.5)), (0, (1, 1.2)), (0, (4, 1.2, 1, 1.2)))
"""Dashes of the lines beside a main line."""


@dataclass(frozen=True)
class ViewChart(Panels):
    """The panels of a view at its last step."""

    rows: Rows = ((), [])
    """What the view shows at every step."""

    def table(self) -> Rows:
        """Every step, not only the one that is drawn."""
        return self.rows


def view_chart(view: View, recording: Recording) -> ViewChart:
    """A view at its last step, with the rows of all steps."""
    lasts = [panel.values[-1] for panel in view.unit_panels]
    limit = max((float(np.nanquantile(np.abs(rows), 0.99)) for rows in lasts), default=1.0) or 1.0
    charts: tuple[Chart, ...] = tuple(_line_chart(panel, recording.steps[-1]) for panel in view.panels) + tuple(
        _unit_map(panel, limit) for panel in view.unit_panels
    )
    same = len({chart.y_label for chart in charts}) == 1
    return ViewChart(
        f"{view.title}, {_moment(recording.steps[-1])}",
        charts[0].x_label,
        charts[0].y_label,
        charts,
        same_y=same,
        own_labels=not same,
        finding=view.caption,
        rows=view_rows(view, recording),
    )


def draw_view(view: View, recording: Recording) -> Any:
    """The last step as a matplotlib figure."""
    return draw_one(view_chart(view, recording))


def view_rows(view: View, recording: Recording) -> Rows:
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
    return f"after {counted(step, 'step')}" if step else "at initialization"


def _line_chart(panel: LinePanel, step: int) -> LineChart:
    lines: list[Line] = []
    for line in panel.lines:
        y = np.array([np.nan if v is None else v for v in line.values[-1]], float)
        x = np.arange(1.0, len(y) + 1)
        beside = sum(1 for other in lines if other.faint and stroke(other.style).color == stroke(line.arm).color)
        style = replace(stroke(line.arm), dashes=FAINT[beside % len(FAINT)]) if line.faint else stroke(line.arm)
        lines.append(Line(line.name, x, y, y, y, style, markers=not line.faint, faint=line.faint))
    positive = any((line.y > 0).any() for line in lines)
    theory = tuple(_theory_line(line) for line in panel.theory) if step == 0 else ()
    return LineChart(
        panel.title, panel.x_label, panel.y_label, tuple(lines), log_y=panel.log and positive, whole_x=True,
        theory=theory,
    )  # fmt: skip


def _theory_line(line: TheoryLine) -> Line:
    y, low, high = (
        np.array([np.nan if v is None else v for v in values], float) for values in (line.center, line.low, line.high)
    )
    return Line("theory", np.arange(1.0, len(y) + 1), y, low, high, line.arm, faint=True)


def _unit_map(panel: UnitPanel, limit: float) -> UnitMap:
    return UnitMap(panel.title, "layer", "unit", np.asarray(panel.values[-1], float), limit)

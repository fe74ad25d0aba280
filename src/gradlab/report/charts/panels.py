"""Several charts as one: small multiples that share axes, or views of one thing side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradlab.errors import InvalidInput
from gradlab.report.charts.base import Chart, Rows


@dataclass(frozen=True)
class Panels(Chart):
    """Charts in a grid, each under its own title.

    Facets of one figure share labels, and their axes if `same_x` or `same_y`; views of different things have
    `own_labels`.
    """

    charts: tuple[Chart, ...]
    by: str = "panel"
    """What the panels differ in, in the table."""
    same_x: bool = False
    same_y: bool = True
    own_labels: bool = False

    @property
    def panels(self) -> tuple[Chart, ...]:
        """Each chart on axes of its own."""
        return self.charts

    @property
    def shares(self) -> tuple[bool, bool]:
        """As declared."""
        return self.same_x, self.same_y

    @property
    def has_key(self) -> bool:
        """One key for all panels."""
        return any(chart.has_key for chart in self.charts)

    def draw_key(self, ax: Any) -> str:
        """As the first panel draws it: all have the same scale."""
        return next(chart for chart in self.charts if chart.has_key).draw_key(ax)

    def draw_marks(self, ax: Any) -> None:
        """Several panels need a figure of their own."""
        raise InvalidInput(
            f"{self.title!r} has {len(self.charts)} panels, which need a figure of their own; leave out ax, or choose "
            "groups for one panel"
        )

    def with_layers(self, names: Sequence[str]) -> Chart:
        """Every panel with them."""
        charts = tuple(chart.with_layers(names) for chart in self.charts)
        same = all(new is old for new, old in zip(charts, self.charts, strict=True))
        return self if same else replace(self, charts=charts, x_label=charts[0].x_label, y_label=charts[0].y_label)

    def table(self) -> Rows:
        """The rows of all panels, each with its panel's title."""
        header: tuple[str, ...] = ()
        rows: list[tuple[Any, ...]] = []
        for chart in self.charts:
            own, found = chart.table()
            header = header or own
            rows += [(chart.title, *row) for row in found]
        return (self.by, *header), rows

    def describe(self) -> str:
        """Panel by panel."""
        return " ".join(f"{chart.title}: {chart.describe()}" for chart in self.charts)

"""A layer measure over layers and steps, as colors: one panel per group, on one scale of decades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.report.charts.base import Chart, Numbers, Rows
from gradlab.report.charts.panels import Panels
from gradlab.report.layer_names import LAYER, MODULE, MOST, MOST_IN_PANELS, ticks_of
from gradlab.report.log_axis import log_y
from gradlab.report.look import SOFT, pt
from gradlab.spec.numerals import written

if TYPE_CHECKING:
    from gradlab.report.scheme import Scheme

COLORS = "viridis"


@dataclass(frozen=True)
class HeatPanel:
    """One group: values[layer, moment] and the step of each moment."""

    names: tuple[str, ...]
    """What sets the group apart."""
    values: Numbers
    steps: tuple[int, ...]
    group: str = ""
    layers: tuple[str, ...] = ()
    """Names of the layers, if they are modules."""

    @property
    def label(self) -> str:
        """All names in one line."""
        return ", ".join(self.names)


@dataclass(frozen=True)
class HeatMap(Chart):
    """One panel of a heat map; `limits` are the ends of the color scale."""

    panel: HeatPanel
    limits: tuple[float, float]
    value_label: str = ""
    most_names: int = MOST

    @property
    def has_key(self) -> bool:
        """The scale of colors."""
        return True

    def draw_marks(self, ax: Any) -> None:
        """Exact zeros and what does not exist are blank, with a dot for a zero."""
        from matplotlib.colors import LogNorm

        values, steps = self.panel.values, self.panel.steps
        layers, moments = values.shape
        shown = np.ma.masked_where(~((values > 0) & np.isfinite(values)), values)
        norm = LogNorm(*self.limits)
        extent = (-0.5, moments - 0.5, 0.5, layers + 0.5)
        ax.imshow(shown, norm=norm, cmap=COLORS, origin="lower", extent=extent, aspect="auto", interpolation="nearest")
        zero = np.argwhere(values == 0)
        ax.plot(zero[:, 1], zero[:, 0] + 1, ".", color=SOFT, markersize=pt(2))
        ax.set_xlim(-0.5, moments - 0.5)
        ax.set_ylim(0.5, layers + 0.5)
        ax.set_xticks(range(moments), [f"{step:,}" for step in steps])
        _set_layers(ax, self.panel.layers, self.most_names)
        ax.grid(visible=False)

    def draw_key(self, ax: Any) -> str:
        """The colors from the smallest value to the largest."""
        low, high = self.limits
        edges = np.geomspace(low, high, 65)
        from matplotlib.colors import LogNorm

        ax.pcolormesh(
            [0, 1], edges, np.sqrt(edges[1:] * edges[:-1])[:, None], cmap=COLORS, norm=LogNorm(low, high),
            rasterized=True,
        )  # fmt: skip
        log_y(ax)
        ax.set_ylim(low, high)
        ax.set_xticks([])
        ax.yaxis.tick_right()
        ax.grid(visible=False)
        return self.value_label

    def table(self) -> Rows:
        """One row per layer and step."""
        names = self.panel.layers or range(1, len(self.panel.values) + 1)
        rows = [
            (names[layer], step, float(self.panel.values[layer, moment]))
            for layer in range(len(self.panel.values))
            for moment, step in enumerate(self.panel.steps)
        ]
        return (self.y_label, "step", self.value_label), rows

    def describe(self) -> str:
        """The first layer, from the first step to the last."""
        first, last = (float(self.panel.values[0, moment]) for moment in (0, -1))
        return f"in the first {self.y_label} {written(first)} at the first step, {written(last)} at the last."


@dataclass(frozen=True)
class HeatChart(Chart):
    """A layer measure over layers and steps: its panels are drawn as `HeatMap`, on one color scale of decades."""

    heats: tuple[HeatPanel, ...]
    value_label: str = ""
    by: str = "group"

    @cached_property
    def _limits(self) -> tuple[float, float]:
        everything = np.concatenate([panel.values.ravel() for panel in self.heats])
        positive = everything[np.isfinite(everything) & (everything > 0)]
        low, high = (float(positive.min()), float(positive.max())) if len(positive) else (0.1, 1.0)
        return low, max(high, 1.01 * low)

    def arranged(self, scheme: Scheme) -> Chart:
        """Every group under its own name."""
        kept = tuple(
            replace(panel, names=(scheme.names.group(panel.group),)) for panel in self.heats if panel.group in scheme
        )
        return replace(self, heats=kept, left_out=scheme.left_out) if kept else self

    def with_layers(self, names: Sequence[str]) -> Chart:
        """Modules along the y axis; of a panel with other layers their numbers."""
        if not names or self.y_label != LAYER or any(len(panel.values) != len(names) for panel in self.heats):
            return self
        return replace(self, heats=tuple(replace(panel, layers=tuple(names)) for panel in self.heats), y_label=MODULE)

    @property
    def each_group(self) -> bool:
        """One heat map per group."""
        return True

    @property
    def panels(self) -> tuple[Chart, ...]:
        """One heat map per group."""
        most = MOST if len(self.heats) == 1 else MOST_IN_PANELS
        return tuple(
            HeatMap(panel.label, self.x_label, self.y_label, panel, self._limits, self.value_label, most)
            for panel in self.heats
        )

    @property
    def has_key(self) -> bool:
        """The scale of colors."""
        return True

    def draw_key(self, ax: Any) -> str:
        """One scale for all panels."""
        return self.panels[0].draw_key(ax)

    def draw_marks(self, ax: Any) -> None:
        """On given axes: a single panel with its key; several panels need a figure of their own."""
        if len(self.heats) > 1:
            Panels(self.title, self.x_label, self.y_label, self.panels).draw_marks(ax)
        self.panels[0].draw_marks(ax)

    def table(self) -> Rows:
        """One row per group, layer and step."""
        rows = [
            (panel.label, *row) for panel, one in zip(self.heats, self.panels, strict=True) for row in one.table()[1]
        ]
        return (self.by, self.y_label, "step", self.value_label), rows

    def describe(self) -> str:
        """The first layer of every panel, from its first step to its last."""
        return " ".join(f"{panel.title}: {panel.describe()}" for panel in self.panels)


def _set_layers(ax: Any, names: Sequence[str], most: int) -> None:
    from matplotlib.ticker import MaxNLocator

    if names:
        ax.set_yticks(*zip(*ticks_of(names, most), strict=True))
        return
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))

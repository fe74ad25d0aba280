"""Numbers as colors: a layer measure over layers and steps, or one input on its way through a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.report.charts.base import LAYER, MODULE, MOST, MOST_IN_PANELS, Chart, Numbers, Panels, Rows, ticks_of
from gradlab.report.look import SOFT, pt
from gradlab.words import written

if TYPE_CHECKING:
    from gradlab.report.scheme import Scheme


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
    key: str = ""
    most_names: int = MOST

    def draw_marks(self, ax: Any) -> None:
        """Exact zeros and what does not exist are blank, with a dot for a zero."""
        from matplotlib.colors import LogNorm

        values, steps = self.panel.values, self.panel.steps
        layers, moments = values.shape
        shown = np.ma.masked_where(~((values > 0) & np.isfinite(values)), values)
        _draw_image(ax, shown, (-0.5, moments - 0.5, 0.5, layers + 0.5), "viridis", LogNorm(*self.limits))
        zero = np.argwhere(values == 0)
        ax.plot(zero[:, 1], zero[:, 0] + 1, ".", color=SOFT, markersize=pt(2))
        ax.set_xlim(-0.5, moments - 0.5)
        ax.set_ylim(0.5, layers + 0.5)
        ax.set_xticks(range(moments), [f"{step:,}" for step in steps])
        if self.panel.layers:
            ax.set_yticks(*zip(*ticks_of(self.panel.layers, self.most_names), strict=True))
        else:
            _count_from_one(ax.yaxis)

    def table(self) -> Rows:
        """One row per layer and step."""
        names = self.panel.layers or range(1, len(self.panel.values) + 1)
        rows = [
            (name, step, float(value))
            for name, row in zip(names, self.panel.values, strict=True)
            for step, value in zip(self.panel.steps, row, strict=True)
        ]
        return (self.y_label, "step", self.key), rows

    def describe(self) -> str:
        """The first layer, from the first step to the last."""
        first, last = (float(self.panel.values[0, moment]) for moment in (0, -1))
        return f"in the first {self.y_label} {written(first)} at the first step, {written(last)} at the last."


@dataclass(frozen=True)
class HeatChart(Chart):
    """A layer measure over layers and steps: its panels are drawn as `HeatMap`, on one color scale of decades."""

    heats: tuple[HeatPanel, ...]
    key: str = ""
    by: str = "group"

    @cached_property
    def _limits(self) -> tuple[float, float]:
        everything = np.concatenate([panel.values.ravel() for panel in self.heats])
        positive = everything[np.isfinite(everything) & (everything > 0)]
        low, high = (float(positive.min()), float(positive.max())) if len(positive) else (0.1, 1.0)
        return low, max(high, 1.01 * low)

    def arranged(self, scheme: Scheme) -> Chart:
        """Every group under its own name."""
        shown = tuple(
            replace(panel, names=(scheme.names.group(panel.group),)) for panel in self.heats if panel.group in scheme
        )
        return replace(self, heats=shown, left_out=scheme.left_out) if shown else self

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
            HeatMap(panel.label, self.x_label, self.y_label, panel, self._limits, self.key, most)
            for panel in self.heats
        )

    def draw_marks(self, ax: Any) -> None:
        """On given axes: a single panel with its key; several panels need a figure of their own."""
        if len(self.heats) > 1:
            Panels(self.title, self.x_label, self.y_label, self.panels).draw_marks(ax)
        self.panels[0].draw_marks(ax)

    def table(self) -> Rows:
        """One row per group, layer and step."""
        rows = [(panel.title, *row) for panel in self.panels for row in panel.table()[1]]
        return (self.by, self.y_label, "step", self.key), rows

    def describe(self) -> str:
        """The first layer of every panel, from its first step to its last."""
        return " ".join(f"{panel.title}: {panel.describe()}" for panel in self.panels)


@dataclass(frozen=True)
class UnitMap(Chart):
    """One input on its way through a network: values[layer, unit], colors from −limit to limit."""

    values: Numbers
    limit: float
    key: str = "activation"

    def draw_marks(self, ax: Any) -> None:
        """A column for each layer, a row for each unit."""
        from matplotlib.colors import Normalize

        layers, units = self.values.shape
        scale = Normalize(-self.limit, self.limit)
        _draw_image(ax, self.values.T, (0.5, layers + 0.5, 0.5, units + 0.5), "RdBu_r", scale)
        ax.invert_yaxis()
        _count_from_one(ax.xaxis)
        _count_from_one(ax.yaxis)

    def table(self) -> Rows:
        """One row per layer and unit."""
        rows = [(layer, unit, float(v)) for (layer, unit), v in np.ndenumerate(self.values) if not np.isnan(v)]
        return ("layer", "unit", "value"), [(layer + 1, unit + 1, value) for layer, unit, value in rows]

    def describe(self) -> str:
        """The sizes in the first layer and in the last."""
        first, last = (float(np.nanmax(np.abs(self.values[place]), initial=0.0)) for place in (0, -1))
        return f"largest activation {written(first)} in the first layer, {written(last)} in the last."


def _draw_image(ax: Any, values: Any, extent: tuple[float, ...], colors: str, scale: Any) -> None:
    """A cell for each number, the first row at the bottom."""
    ax.imshow(values, norm=scale, cmap=colors, origin="lower", extent=extent, aspect="auto", interpolation="nearest")
    ax.grid(visible=False)


def _count_from_one(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))

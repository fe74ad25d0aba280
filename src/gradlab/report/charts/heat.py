"""A layer measure over layers and steps, as colors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.report.charts.base import Chart, Numbers, Rows
from gradlab.report.log_axis import label_decades
from gradlab.report.look import SOFT, plain


@dataclass(frozen=True)
class HeatPanel:
    """One group: values[layer, moment] and the step of each moment."""

    names: tuple[str, ...]
    """What sets the group apart, one line each."""
    values: Numbers
    steps: tuple[int, ...]

    @property
    def label(self) -> str:
        """All names in one line."""
        return ", ".join(self.names)


@dataclass(frozen=True)
class HeatChart(Chart):
    """A layer measure over layers and steps, one panel per group side by side, on one color scale of decades."""

    panels: tuple[HeatPanel, ...]
    value_label: str = ""

    def table(self) -> Rows:
        """One row per group, layer and step."""
        rows = [
            (panel.label, layer + 1, step, float(panel.values[layer, moment]))
            for panel in self.panels
            for layer in range(len(panel.values))
            for moment, step in enumerate(panel.steps)
        ]
        return ("group", "layer", "step", self.value_label), rows

    def describe(self) -> str:
        """The first layer of every panel, from its first step to its last."""
        parts = [f"{p.label}: {p.values[0, 0]:.3g} to {p.values[0, -1]:.3g}" for p in self.panels]
        return f"In the first layer, from the first step to the last, {'; '.join(parts)}."

    def draw_marks(self, ax: Any) -> None:
        """Exact zeros and what does not exist are white, with a dot for a zero."""
        from matplotlib.colors import LogNorm

        everything = np.concatenate([panel.values.ravel() for panel in self.panels])
        positive = everything[np.isfinite(everything) & (everything > 0)]
        norm = LogNorm(float(positive.min()), max(float(positive.max()), 1.01 * float(positive.min())))
        start, ticks = 0, []
        for panel in self.panels:
            values, steps = panel.values, panel.steps
            layers, moments = values.shape
            shown = np.ma.masked_where(~((values > 0) & np.isfinite(values)), values)
            edges = np.arange(moments + 1) + start, np.arange(layers + 1) + 0.5
            mesh = ax.pcolormesh(*edges, shown, norm=norm, cmap="viridis", rasterized=True)
            zero = np.argwhere(values == 0)
            ax.plot(zero[:, 1] + start + 0.5, zero[:, 0] + 1, ".", color=SOFT, markersize=2)
            every = max(1, moments // 4)
            ticks += [(start + place + 0.5, _shorten(steps[place])) for place in range(0, moments, every)]
            most = 2 + 60 // len(self.panels)
            names = "\n".join(plain(n if len(n) <= most else n[: most - 1] + "…") for n in panel.names)
            ax.annotate(names, (start, layers + 0.5), (0, 3), textcoords="offset points", fontsize=7.5, va="bottom")
            start += moments + 1
        ax.set_xticks(*zip(*ticks, strict=True), fontsize=8)
        lines = max(len(panel.names) for panel in self.panels)
        tallest = max(len(panel.values) for panel in self.panels)
        ax.set_ylim(0.5, 0.5 + tallest * (1.04 + 0.06 * lines))  # room for the names
        apart = -(-tallest // 8)
        ax.set_yticks([1, *range(max(apart, 2), tallest + 1, apart)])
        ax.grid(visible=False)
        bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02)
        bar.set_label(self.value_label, fontsize=8)
        label_decades(bar.ax.yaxis)
        bar.ax.tick_params(labelsize=8)


def _shorten(steps: int) -> str:
    return str(steps) if steps < 1000 else f"{steps / 1000:.3g}k"

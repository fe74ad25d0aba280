"""How sensitive each arm is to a tuned setting: the metric by value, and which value was chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.report.charts.base import Chart, Numbers, Rows, legend_text
from gradlab.report.log_axis import BETWEEN, decade, log_x, log_y
from gradlab.report.look import INK, SOFT, plain, stroke

FEW_DECADES = 100
"""Largest over smallest value of an axis that needs more labels than powers of ten."""
GAP = 0.06
"""Room between panels, as a share of the axes."""


@dataclass(frozen=True)
class SensitivityCurve:
    """One arm along one setting: median, best and worst over the tuning seeds; not finite where they diverged."""

    arm: str
    x: Numbers
    median: Numbers
    best: Numbers
    worst: Numbers
    chosen: int | None
    """The place of the value at which the arm is judged; None before the choice."""
    edge: bool
    """Whether that is the smallest or largest that was tried."""
    style: int


@dataclass(frozen=True)
class SensitivityPanel:
    """One tuned setting."""

    name: str
    curves: tuple[SensitivityCurve, ...]
    ticks: tuple[tuple[float, str], ...] = ()
    """Names of places on the axis, if the values are words."""
    log_x: bool = False
    untuned: float | None = None
    """The value of the base."""


@dataclass(frozen=True)
class SensitivityChart(Chart):
    """One panel for each tuned setting, side by side on one vertical axis."""

    panels: tuple[SensitivityPanel, ...]
    log_y: bool = False
    lower_is_better: bool = True
    cap: float | None = None
    """Medians beyond it are marked at the end of the axis instead: a loss that explodes would hide all others."""

    @property
    def note_drop(self) -> int:
        """Turned labels need room."""
        return 78 if any(_is_crowded(panel, len(self.panels)) for panel in self.panels) else 40

    def table(self) -> Rows:
        """One row per setting, arm and value."""
        rows = []
        for panel in self.panels:
            names = dict(panel.ticks)
            for curve in panel.curves:
                columns = zip(curve.x, curve.median, curve.best, curve.worst, strict=True)
                rows += [
                    (panel.name, curve.arm, names.get(float(x), float(x)), *map(float, numbers), place == curve.chosen)
                    for place, (x, *numbers) in enumerate(columns)
                ]
        return ("setting", "arm", "value", "median", "best", "worst", "chosen"), rows

    def describe(self) -> str:
        """The chosen value of every arm, and its metric."""
        parts = []
        for panel in self.panels:
            names = dict(panel.ticks)
            for curve in panel.curves:
                if curve.chosen is not None:
                    x, y = float(curve.x[curve.chosen]), curve.median[curve.chosen]
                    where = ", at the edge of the range" if curve.edge else ""
                    parts.append(f"{curve.arm}: {panel.name} {names.get(x, f'{x:g}')} ({y:.3g}{where})")
        return f"Chosen, {'; '.join(parts)}." if parts else "Nothing was chosen yet."

    def draw_marks(self, ax: Any) -> None:
        """One panel on the axes themselves, several on axes inside them."""
        count = len(self.panels)
        if count == 1:
            self._draw_panel(ax, self.panels[0], 1)
            _explain(ax, self)
            return
        width = (1 - GAP * (count - 1)) / count
        inner = [ax.inset_axes((place * (width + GAP), 0, width, 1)) for place in range(count)]
        for place, panel in enumerate(self.panels):
            self._draw_panel(inner[place], panel, count)
            inner[place].set_xlabel(panel.name)
        low, high = min(each.get_ylim()[0] for each in inner), max(each.get_ylim()[1] for each in inner)
        for place, each in enumerate(inner):
            each.set_ylim(low, high)
            if place:
                each.tick_params(labelleft=False, which="both")
        inner[0].set_ylabel(self.y_label)
        for curve in self.panels[0].curves:
            s = stroke(curve.style)
            ax.plot([], [], color=s.color, linestyle=s.dashes, marker=s.marker, label=legend_text(curve.arm))
        _explain(ax, self)
        ax.set_axis_off()

    def _draw_panel(self, ax: Any, panel: SensitivityPanel, count: int) -> None:
        for curve in panel.curves:
            _draw_curve(ax, curve, self.cap, label=legend_text(curve.arm) if count == 1 else None)
        if self.log_y:
            log_y(ax)
        if panel.log_x:
            log_x(ax)
        if panel.ticks:
            turned = {"rotation": 30, "ha": "right"} if _is_crowded(panel, count) else {}
            places, names = zip(*panel.ticks, strict=True)
            ax.set_xticks(places, [plain(name) for name in names], **turned)
        if panel.untuned is not None:
            ax.axvline(panel.untuned, color=SOFT, linewidth=1.4, linestyle=(0, (1, 1.6)), zorder=0.9)
        ax.margins(y=0.14)
        if self.log_y:
            _label_few_decades(ax)
        height = 0.96 if self.lower_is_better else 0.04
        for index, curve in enumerate(panel.curves):
            lost = ~_is_shown(curve, self.cap)
            ax.plot(
                curve.x[lost], np.full(lost.sum(), height - 0.04 * index * (1 if self.lower_is_better else -1)), "x",
                color=stroke(curve.style).color, markersize=6, transform=ax.get_xaxis_transform(),
            )  # fmt: skip


def _label_few_decades(ax: Any) -> None:
    """Label twos and fives too where less than two decades are in view: one label does not make an axis."""
    from matplotlib.ticker import NullLocator

    low, high = ax.get_ylim()
    if high / low >= FEW_DECADES:
        return
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**exponent for exponent in exponents for factor in (1, *BETWEEN)]
    shown = [tick for tick in ticks if low <= tick <= high]
    ax.set_yticks(shown, [f"{tick:g}" if 1e-3 <= tick < 1e4 else decade(tick) for tick in shown])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_ylim(low, high)


def _is_shown(curve: SensitivityCurve, cap: float | None) -> NDArray[np.bool_]:
    """Which medians are drawn at their height."""
    return np.isfinite(curve.median) & (curve.median <= (np.inf if cap is None else cap))


def _draw_curve(ax: Any, curve: SensitivityCurve, cap: float | None, label: str | None) -> None:
    s = stroke(curve.style)
    there = _is_shown(curve, cap)
    worst = curve.worst if cap is None else np.minimum(curve.worst, cap)
    band = there & np.isfinite(worst)
    low, high = np.minimum(curve.best, worst), np.maximum(curve.best, worst)
    ax.fill_between(curve.x, low, high, where=band, color=s.color, alpha=0.16, linewidth=0)
    ax.plot(
        curve.x[there], curve.median[there], color=s.color, linestyle=s.dashes, marker=s.marker, markersize=4.5,
        label=label,
    )  # fmt: skip
    if curve.chosen is None or not there[curve.chosen]:
        return
    x, y = curve.x[curve.chosen], curve.median[curve.chosen]
    ax.plot(
        [x],
        [y],
        "o",
        color=s.color,
        markersize=13,
        markerfacecolor="none",
        markeredgewidth=1.8,
        zorder=4,
        clip_on=False,
    )
    if curve.edge:
        at_left = x == curve.x.min()
        ax.annotate(
            "edge", (x, y), (10 if at_left else -10, 9), textcoords="offset points", fontsize=8, color=s.color,
            ha="left" if at_left else "right",
        )  # fmt: skip


def _explain(ax: Any, chart: SensitivityChart) -> None:
    """Entries of the legend for what is not a curve."""
    curves = [curve for panel in chart.panels for curve in panel.curves]
    if any(curve.chosen is not None for curve in curves):
        ax.plot([], [], "o", color=INK, markersize=10, markerfacecolor="none", markeredgewidth=1.5, label="chosen")
    lost = [~_is_shown(curve, chart.cap) for curve in curves]
    if any(each.any() for each in lost):
        exploded = any((each & np.isfinite(curve.median)).any() for each, curve in zip(lost, curves, strict=True))
        ax.plot([], [], "x", color=INK, markersize=6, label="diverged or off the axis" if exploded else "diverged")
    if any(panel.untuned is not None for panel in chart.panels):
        ax.plot([], [], color=SOFT, linewidth=1.4, linestyle=(0, (1, 1.6)), label="untuned value")


def _is_crowded(panel: SensitivityPanel, panels: int) -> bool:
    return sum(len(name) for _, name in panel.ticks) > 60 // panels

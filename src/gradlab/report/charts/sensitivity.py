"""How sensitive each arm is to a tuned setting: the metric by value, and which value was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.report.charts.base import Chart, Numbers, Rows, legend_text
from gradlab.report.log_axis import log_x, log_y
from gradlab.report.look import INK, SOFT, plain, pt, stroke
from gradlab.spec.numerals import written


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
    """The curves of all arms along one tuned setting."""

    setting: SensitivityPanel
    log_y: bool = False
    lower_is_better: bool = True
    cap: float | None = None
    """Medians beyond it are marked at the end of the axis instead: a loss that explodes would hide all others."""

    def table(self) -> Rows:
        """One row per arm and value."""
        rows, names = [], dict(self.setting.ticks)
        for curve in self.setting.curves:
            columns = zip(curve.x, curve.median, curve.best, curve.worst, strict=True)
            rows += [
                (
                    self.setting.name,
                    curve.arm,
                    names.get(float(x), float(x)),
                    *map(float, numbers),
                    place == curve.chosen,
                )
                for place, (x, *numbers) in enumerate(columns)
            ]
        return ("setting", "arm", "value", "median", "best", "worst", "chosen"), rows

    def describe(self) -> str:
        """The chosen value of every arm, and its metric."""
        parts, names = [], dict(self.setting.ticks)
        for curve in self.setting.curves:
            if curve.chosen is not None:
                x, y = float(curve.x[curve.chosen]), curve.median[curve.chosen]
                where = ", at the edge of the range" if curve.edge else ""
                parts.append(f"{curve.arm}: {self.setting.name} {names.get(x, written(x))} ({written(y)}{where})")
        return f"Chosen, {'; '.join(parts)}." if parts else "Nothing was chosen yet."

    def draw_marks(self, ax: Any) -> None:
        """Curves with bands, the chosen value ringed, diverged medians as crosses at the end of the axis."""
        setting = self.setting
        for curve in setting.curves:
            _draw_curve(ax, curve, self.cap, label=legend_text(curve.arm))
        if self.log_y:
            log_y(ax)
        if setting.log_x:
            log_x(ax)
        if setting.ticks:
            places, names = zip(*setting.ticks, strict=True)
            ax.set_xticks(places, [plain(name) for name in names])
        if setting.untuned is not None:
            ax.axvline(setting.untuned, color=SOFT, linewidth=pt(1.4), linestyle=(0, (1, 1.6)), zorder=0.9)
        ax.margins(y=0.14)
        height = 0.96 if self.lower_is_better else 0.04
        for index, curve in enumerate(setting.curves):
            lost = ~_is_shown(curve, self.cap)
            ax.plot(
                curve.x[lost], np.full(lost.sum(), height - 0.04 * index * (1 if self.lower_is_better else -1)), "x",
                color=stroke(curve.style).color, markersize=pt(6), transform=ax.get_xaxis_transform(),
            )  # fmt: skip
        _explain(ax, self)


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
        curve.x[there], curve.median[there], color=s.color, linestyle=s.dashes, marker=s.marker, markersize=pt(4.5),
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
        markersize=pt(13),
        markerfacecolor="none",
        markeredgewidth=pt(1.8),
        zorder=4,
        clip_on=False,
    )
    if curve.edge:
        at_left = x == curve.x.min()
        ax.annotate(
            "edge", (x, y), (10 if at_left else -10, 9), textcoords="offset points", fontsize=pt(8), color=s.color,
            ha="left" if at_left else "right",
        )  # fmt: skip


def _explain(ax: Any, chart: SensitivityChart) -> None:
    """Entries of the legend for what is not a curve."""
    curves = chart.setting.curves
    if any(curve.chosen is not None for curve in curves):
        ax.plot(
            [], [], "o", color=INK, markersize=pt(10), markerfacecolor="none", markeredgewidth=pt(1.5), label="chosen"
        )
    lost = [~_is_shown(curve, chart.cap) for curve in curves]
    if any(each.any() for each in lost):
        exploded = any((each & np.isfinite(curve.median)).any() for each, curve in zip(lost, curves, strict=True))
        ax.plot([], [], "x", color=INK, markersize=pt(6), label="diverged or off the axis" if exploded else "diverged")
    if chart.setting.untuned is not None:
        ax.plot([], [], color=SOFT, linewidth=pt(1.4), linestyle=(0, (1, 1.6)), label="untuned value")

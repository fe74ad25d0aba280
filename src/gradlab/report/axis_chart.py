"""Charts of numbers against a study's axis: every seed is a dot, the line goes through the medians."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gradlab.report.charts import Chart, Numbers, Points, Rows, draw_levels, draw_points, legend_text
from gradlab.report.log_axis import label_decades, log_x, log_y
from gradlab.report.look import SOFT, plain, stroke


@dataclass(frozen=True)
class Dots:
    """One series: at each x the values of all seeds."""

    label: str
    x: Numbers
    values: tuple[Numbers, ...]
    style: int


@dataclass(frozen=True)
class AxisChart(Chart):
    """Series along an axis that is a number (drawn by size or by ratio) or a word (drawn side by side)."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Dots, ...]
    ticks: tuple[tuple[float, str], ...]
    log_x: bool = False
    log_y: bool = False
    points: tuple[Points, ...] = ()
    levels: tuple[tuple[float, str], ...] = ()
    note: str = ""

    def marks(self, ax: Any) -> None:
        """Dots beside each other where series share a place, medians joined by a line."""
        from matplotlib.ticker import NullLocator

        for index, series in enumerate(self.series):
            self._draw(ax, series, self._shift(index))
        draw_points(self.points, ax)
        if self.log_x:
            log_x(ax)
        if self.log_y:
            log_y(ax)
        places, labels = zip(*self.ticks, strict=True)
        turned = {"rotation": 30, "ha": "right"} if self.crowded else {}
        ax.set_xticks(places, [plain(label) for label in labels], **turned)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.grid(axis="x", visible=False)
        draw_levels(self.levels, ax)

    def table(self) -> Rows:
        """One row per seed."""
        names = dict(self.ticks)
        rows = [
            (series.label, names.get(float(x), float(x)), float(value))
            for series in self.series
            for x, values in zip(series.x, series.values, strict=True)
            for value in values
        ]
        return ("series", self.x_label, self.y_label), rows

    def words(self) -> str:
        """The medians of every series along the axis."""
        names = dict(self.ticks)
        told = []
        for series in self.series:
            points = zip(series.x, series.values, strict=True)
            medians = [f"{names.get(float(x), x)}: {np.median(v):.3g}" for x, v in points if len(v)]
            told.append(f"{series.label}: {', '.join(medians)}")
        return f"Medians, {'; '.join(told)}."

    @property
    def crowded(self) -> bool:
        """Whether the labels of the axis have to be turned."""
        return sum(len(text) for _, text in self.ticks) > 60

    @property
    def note_drop(self) -> int:
        """Turned labels need room."""
        return 92 if self.crowded else 40

    def _draw(self, ax: Any, series: Dots, shift: float) -> None:
        s = stroke(series.style)
        x = series.x * shift if self.log_x else series.x + shift
        there = [place for place, values in enumerate(series.values) if len(values)]
        for place in there:
            values = series.values[place]
            ax.plot(
                np.full(len(values), x[place]), values, linestyle="none", marker=s.marker, markersize=4,
                color=s.color, alpha=0.45, markeredgewidth=0,
            )  # fmt: skip
        medians = [float(np.median(series.values[place])) for place in there]
        ax.plot(
            x[there], medians, color=s.color, linestyle=s.dashes, marker=s.marker, markersize=6,
            label=legend_text(series.label),
        )  # fmt: skip

    def _shift(self, index: int) -> float:
        """Series stand a little beside each other, so that no dot hides another."""
        offset = index - (len(self.series) - 1) / 2
        places = sorted({place for place, _ in self.ticks})
        if self.log_x:
            nearest = min((b / a for a, b in pairwise(places)), default=2.0)
            return float(nearest ** (0.08 * offset))
        nearest = min((b - a for a, b in pairwise(places)), default=1.0)
        return 0.08 * nearest * offset


@dataclass(frozen=True)
class ParetoChart(Chart):
    """Cost against value: filled marks and a line for what is worth its price, hollow ones for what is dominated."""

    title: str
    x_label: str
    y_label: str
    offers: tuple[tuple[str, float, float, bool], ...]
    """(label, cost, value, dominated)"""
    log_x: bool = True
    note: str = ""

    def table(self) -> Rows:
        """One row per group."""
        return ("group", self.x_label, self.y_label, "dominated"), list(self.offers)

    def words(self) -> str:
        """The groups on the frontier."""
        best = [f"{name} ({value:.3g} for {cost:.3g})" for name, cost, value, dominated in self.offers if not dominated]
        return f"Nothing is better and cheaper than {', '.join(best)}; {len(self.offers) - len(best)} are dominated."

    def marks(self, ax: Any) -> None:
        """The frontier's labels stand where they hide neither each other nor a mark."""
        color = stroke(1).color
        hollow = [(cost, value) for _, cost, value, dominated in self.offers if dominated]
        best = [(cost, value) for _, cost, value, dominated in self.offers if not dominated]
        if hollow:
            ax.plot(
                *zip(*hollow, strict=True), "o", color=SOFT, markerfacecolor="white", markersize=5, label="dominated"
            )
        ax.plot(
            *zip(*best, strict=True), "o-", color=color, markersize=6, drawstyle="steps-post",
            label="nothing is better and cheaper",
        )  # fmt: skip
        if self.log_x:
            log_x(ax)
        ax.margins(x=0.12, y=0.14)
        _label(self.offers, ax)


def _label(offers: tuple[tuple[str, float, float, bool], ...], ax: Any) -> None:
    """Each label in the first of a few places around its mark that is still free; none where all are taken."""
    ax.figure.canvas.draw()
    taken: list[Any] = []
    marks = [ax.transData.transform((cost, value)) for _, cost, value, _ in offers]
    for name, cost, value, _ in (offer for offer in offers if not offer[3]):
        for dx, dy, ha, va in _PLACES:
            text = ax.annotate(
                legend_text(name), (cost, value), (dx, dy), textcoords="offset points", fontsize=7.5, ha=ha, va=va
            )
            box = text.get_window_extent()
            inside = (
                ax.bbox.x0 <= box.x0 and box.x1 <= ax.figure.bbox.x1 and box.y1 <= ax.bbox.y1 and box.y0 >= ax.bbox.y0
            )
            hides = any(box.overlaps(other) for other in taken) or any(box.contains(*mark) for mark in marks)
            if inside and not hides:
                taken.append(box)
                break
            text.remove()


_PLACES = (
    (6, -4, "left", "top"), (6, 4, "left", "bottom"), (-6, 4, "right", "bottom"), (-6, -4, "right", "top"),
    (8, -16, "left", "top"), (-8, 16, "right", "bottom"), (8, 18, "left", "bottom"), (10, -28, "left", "top"),
)  # fmt: skip


@dataclass(frozen=True)
class HeatChart(Chart):
    """A layer measure over layers and steps, one panel per group side by side, on one color scale of decades."""

    title: str
    x_label: str
    y_label: str
    panels: tuple[tuple[str, Numbers, tuple[int, ...]], ...]
    """(group, values[layer, moment], steps)"""
    value_label: str = ""
    note: str = ""

    def table(self) -> Rows:
        """One row per group, layer and step."""
        rows = [
            (name, layer + 1, step, float(values[layer, moment]))
            for name, values, steps in self.panels
            for layer in range(len(values))
            for moment, step in enumerate(steps)
        ]
        return ("group", "layer", "step", self.value_label), rows

    def words(self) -> str:
        """The first layer of every panel, from its first step to its last."""
        told = [f"{name}: {values[0, 0]:.3g} to {values[0, -1]:.3g}" for name, values, _ in self.panels]
        return f"In the first layer, from the first step to the last, {'; '.join(told)}."

    def marks(self, ax: Any) -> None:
        """Exact zeros and what does not exist are white, with a dot for a zero."""
        from matplotlib.colors import LogNorm

        everything = np.concatenate([values.ravel() for _, values, _ in self.panels])
        positive = everything[np.isfinite(everything) & (everything > 0)]
        norm = LogNorm(float(positive.min()), max(float(positive.max()), 1.01 * float(positive.min())))
        start, ticks = 0, []
        for name, values, steps in self.panels:
            layers, moments = values.shape
            shown = np.ma.masked_where(~((values > 0) & np.isfinite(values)), values)
            edges = np.arange(moments + 1) + start, np.arange(layers + 1) + 0.5
            mesh = ax.pcolormesh(*edges, shown, norm=norm, cmap="viridis", rasterized=True)
            zero = np.argwhere(values == 0)
            ax.plot(zero[:, 1] + start + 0.5, zero[:, 0] + 1, ".", color=SOFT, markersize=2)
            every = max(1, moments // 4)
            ticks += [(start + place + 0.5, _compact(steps[place])) for place in range(0, moments, every)]
            most = 2 + 60 // len(self.panels)
            words = "\n".join(plain(w if len(w) <= most else w[: most - 1] + "…") for w in name.split(", "))
            ax.annotate(words, (start, layers + 0.5), (0, 3), textcoords="offset points", fontsize=7.5, va="bottom")
            start += moments + 1
        ax.set_xticks(*zip(*ticks, strict=True), fontsize=8)
        lines = max(len(name.split(", ")) for name, _, _ in self.panels)
        tallest = max(len(values) for _, values, _ in self.panels)
        ax.set_ylim(0.5, 0.5 + tallest * (1.04 + 0.06 * lines))  # room for the names
        apart = -(-tallest // 8)
        ax.set_yticks([1, *range(max(apart, 2), tallest + 1, apart)])
        ax.grid(visible=False)
        bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02)
        bar.set_label(self.value_label, fontsize=8)
        label_decades(bar.ax.yaxis)
        bar.ax.tick_params(labelsize=8)


def _compact(steps: int) -> str:
    return str(steps) if steps < 1000 else f"{steps / 1000:.3g}k"


@dataclass(frozen=True)
class EffectChart(Chart):
    """Main effects of a factorial study: the marginal mean of every level of every factor, with intervals."""

    title: str
    x_label: str
    y_label: str
    factors: tuple[tuple[str, tuple[tuple[str, float, float | None, float | None], ...]], ...]
    """(factor, ((level, mean, low, high), …))"""
    log_y: bool = False
    note: str = ""

    @property
    def note_drop(self) -> int:
        """Below the turned labels."""
        return 104

    def table(self) -> Rows:
        """One row per level."""
        rows = [(name, *level) for name, levels in self.factors for level in levels]
        return ("factor", "level", "mean", "low", "high"), rows

    def words(self) -> str:
        """The means of every factor's levels."""
        told = [f"{name}: " + ", ".join(f"{lv} {mean:.3g}" for lv, mean, *_ in levels) for name, levels in self.factors]
        return f"{'; '.join(told)}."

    def marks(self, ax: Any) -> None:
        """Factors side by side, largest effect first."""
        place, ticks = 0.0, []
        for index, (name, levels) in enumerate(self.factors):
            s = stroke(index)
            x = [place + step for step in range(len(levels))]
            means = [mean for _, mean, _, _ in levels]
            spread = [
                (mean - low, high - mean) if low is not None and high is not None else (0.0, 0.0)
                for _, mean, low, high in levels
            ]
            ax.errorbar(
                x, means, yerr=np.array(spread).T, color=s.color, marker=s.marker, linestyle=s.dashes, capsize=3,
                label=legend_text(name),
            )  # fmt: skip
            ticks += list(zip(x, (level for level, *_ in levels), strict=True))
            place += len(levels) + 0.8
        if self.log_y:
            log_y(ax)
        ax.set_xticks([x for x, _ in ticks], [plain(text) for _, text in ticks], rotation=35, ha="right", fontsize=8)
        ax.grid(axis="x", visible=False)

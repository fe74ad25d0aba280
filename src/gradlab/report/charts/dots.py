"""Groups side by side: every trial a dot, boxes, main effects, and cost against value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.report.charts.base import (
    Chart,
    Level,
    Numbers,
    Points,
    Rows,
    draw_column,
    draw_levels,
    draw_points,
    legend_text,
    lift_zeros,
)
from gradlab.report.look import GROUND, INK, SOFT, Stroke, plain, pt, stroke
from gradlab.report.ticks import text_height, text_width
from gradlab.words import percent, written

if TYPE_CHECKING:
    from gradlab.report.scheme import Scheme

Center = tuple[float, float, float] | None
"""Center, low and high; None without an interval."""
BESIDE = 0.14
"""How far a center with its interval stands beside the dots."""
APART, NEXT = 0.7, 1.5
"""From untuned to tuned, and from one arm to the next."""
LONGEST_VALUE = 18
"""Characters of a setting below a column."""


@dataclass(frozen=True)
class Column:
    """The trials of one group: values[seed], NaN where there is none, with center and interval beside."""

    group: str
    values: Numbers
    center: Center
    style: int | Stroke
    state: str = ""
    """`untuned` or `tuned`, if every arm has both columns."""
    settings: tuple[str, ...] = ()
    """What the arm was trained at, a line each."""


@dataclass(frozen=True)
class SeedChart(Chart):
    """Columns of dots, a dot for each trial; where two columns are compared, the dots of a seed are joined.

    The columns are groups, or every arm untuned and tuned.
    """

    columns: tuple[Column, ...]
    seeds: tuple[int, ...]
    log_y: bool = False
    levels: tuple[Level, ...] = ()

    def arranged(self, scheme: Scheme) -> Chart:
        """Names and strokes of the scheme, where the columns are groups."""
        if self.paired or not all(column.group in scheme for column in self.columns):
            return self
        named = (
            replace(column, group=scheme.names.group(column.group), style=scheme.strokes[column.group])
            for column in self.columns
        )
        return replace(self, columns=tuple(named))

    @property
    def paired(self) -> bool:
        """Whether every arm has two columns, untuned and tuned."""
        return any(column.state for column in self.columns)

    @property
    def joined(self) -> bool:
        """Whether dots of a seed are joined; between more than two groups, lines would suggest an order."""
        return self.paired or len(self.columns) == 2

    def draw_marks(self, ax: Any) -> None:
        """A thin line for each seed, a dot for each trial (hollow: untuned), the center with its interval."""
        places = [NEXT * (i // 2) + APART * (i % 2) if self.paired else float(i) for i in range(len(self.columns))]
        floor = self._floor() if self.log_y else None
        values = [lift_zeros(column.values, floor) for column in self.columns]
        for left in range(0, len(places) - 1, 2) if self.joined else ():
            for pair in zip(values[left], values[left + 1], strict=True):
                ax.plot(places[left : left + 2], pair, color=SOFT, linewidth=pt(0.8), alpha=0.55, zorder=1)
        for place, column, heights in zip(places, self.columns, values, strict=True):
            s, hollow = stroke(column.style), column.state == "untuned"
            face = GROUND if hollow else s.color
            name = legend_text(column.group) if column.state == "tuned" else None
            draw_column(ax, place, heights, s, alpha=0.7, markerfacecolor=face, label=name)
            if column.center is not None:
                middle, low, high = lift_zeros(np.array(column.center), floor)
                reach = [[max(middle - low, 0)], [max(high - middle, 0)]]
                ax.errorbar(
                    place + (-BESIDE if hollow else BESIDE), middle, yerr=reach,
                    color=s.color, marker=s.marker, markersize=pt(7.5), markerfacecolor=face, capsize=pt(4), zorder=3,
                )  # fmt: skip
        if self.log_y:
            ax.set_yscale("log")
        ax.set_xticks(places, [plain(self._label(column)) for column in self.columns])
        ax.set_xlim(-0.5, places[-1] + 0.5)
        ax.grid(axis="x", visible=False)
        ax.margins(y=0.09)
        draw_levels(self.levels, ax)

    def _floor(self) -> float:
        """Where exact zeros stand on a log axis: below all other values."""
        values = np.concatenate([column.values for column in self.columns])
        return float(values[values > 0].min()) / 3

    def _label(self, column: Column) -> str:
        """The group; or `tuned` above its settings, which of many arms stand alone."""
        if not column.state:
            return column.group
        short = [text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…" for text in column.settings]
        return ", ".join(short) if len(self.columns) > 8 else "\n".join([column.state, *short])

    def table(self) -> Rows:
        """One row per trial."""
        rows = [
            (column.group, *([column.state] if self.paired else []), seed, float(value))
            for column in self.columns
            for seed, value in zip(self.seeds, column.values, strict=True)
        ]
        return (*(("arm", "") if self.paired else ("group",)), "seed", self.y_label), rows

    def describe(self) -> str:
        """The center of every group, or the medians of both columns of every arm."""
        if not self.paired:
            parts = [f"{c.group}: {written(c.center[0])}" for c in self.columns if c.center is not None]
            return f"Centers, {'; '.join(parts)}."
        finite = [column.values[np.isfinite(column.values)] for column in self.columns]
        medians = [f"{float(np.median(v)) if len(v) else np.nan:.3g}" for v in finite]
        parts = [
            f"{column.group}: {before} untuned, {after} tuned"
            for column, before, after in zip(self.columns[::2], medians[::2], medians[1::2], strict=True)
        ]
        return f"Medians, {'; '.join(parts)}."


# Distributions side by side.

BOX = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles: whisker, box, median, box, whisker."""


@dataclass(frozen=True)
class BoxChart(Chart):
    """Distributions side by side: one box (5, 25, 50, 75, 95 %) per place."""

    places: tuple[int, ...]
    samples: tuple[Numbers, ...]
    points: tuple[Points, ...] = ()
    log_y: bool = True
    levels: tuple[Level, ...] = ((1.0, "equal"),)

    def draw_marks(self, ax: Any) -> None:
        """One box per place, published stars, reference levels."""
        color = stroke(1).color
        keys = ("whislo", "q1", "med", "q3", "whishi")
        ax.bxp(
            [dict(zip(keys, np.quantile(sample, BOX), strict=True)) for sample in self.samples],
            positions=self.places, showfliers=False, widths=0.5, manage_ticks=False, patch_artist=True,
            boxprops={"facecolor": color, "alpha": 0.25, "edgecolor": color},
            medianprops={"color": color, "linewidth": pt(2.4)},
            whiskerprops={"color": color},
            capprops={"color": color},
        )  # fmt: skip
        ax.plot([], [], color=color, linewidth=pt(2.4), label="median; box 25–75 %, whiskers 5–95 %")
        draw_points(self.points, ax)
        if self.log_y:
            ax.set_yscale("log")
        ax.set_xlim(min(self.places) - 0.6, max(self.places) + 0.6)
        ax.set_xticks(self.places, [str(place) for place in self.places])
        draw_levels(self.levels, ax, INK)
        ax.grid(axis="x", visible=False)

    def table(self) -> Rows:
        """The five numbers of every box."""
        quantiles = [np.quantile(sample, BOX).tolist() for sample in self.samples]
        header = (self.x_label, *(percent(q) for q in BOX))
        return header, [(place, *values) for place, values in zip(self.places, quantiles, strict=True)]

    def describe(self) -> str:
        """The median of every box."""
        medians = [
            f"{place}: {written(float(np.median(s)))}" for place, s in zip(self.places, self.samples, strict=True)
        ]
        return f"Medians by {self.x_label}: {', '.join(medians)}."


# Main effects of a factorial study.


@dataclass(frozen=True)
class EffectChart(Chart):
    """Main effects of a factorial study: the marginal mean of every level of every factor, with intervals.

    A row for each level, factors below each other, the largest effect on top; levels are categories and not joined.
    """

    factors: tuple[tuple[str, tuple[tuple[str, float, float | None, float | None], ...]], ...]
    """(factor, ((level, mean, low, high), …)), the largest effect first."""
    log_y: bool = False
    """Whether the means are on a log scale."""

    @property
    def text_rows(self) -> int:
        """Rows of the picture: one for each level and one for each factor's name."""
        return sum(len(levels) + 1 for _, levels in self.factors)

    def table(self) -> Rows:
        """One row per level."""
        rows = [(name, *level) for name, levels in self.factors for level in levels]
        return ("factor", "level", "mean", "low", "high"), rows

    def describe(self) -> str:
        """The means of every factor's levels."""
        parts = [
            f"{name}: " + ", ".join(f"{lv} {written(mean)}" for lv, mean, *_ in levels) for name, levels in self.factors
        ]
        return f"{'; '.join(parts)}."

    def draw_marks(self, ax: Any) -> None:
        """A mark with its interval for every level, under its factor."""
        row, ticks = 0.0, []
        for index, (name, levels) in enumerate(self.factors):
            s = stroke(index)
            ticks.append((row, name))
            for place, (level, mean, low, high) in enumerate(levels, 1):
                ticks.append((row + place, f"{level}   "))
                if low is not None and high is not None:
                    ax.plot([low, high], [row + place] * 2, color=s.color, linewidth=pt(2), solid_capstyle="butt")
                ax.plot(mean, row + place, marker=s.marker, color=s.color, markersize=pt(7), linestyle="none")
            row += len(levels) + 1.0
        if self.log_y:
            ax.set_xscale("log")
        ax.set_yticks([at for at, _ in ticks], [plain(text) for _, text in ticks])
        for text, (_, name) in zip(ax.get_yticklabels(), ticks, strict=True):
            text.set(fontweight="normal" if name.endswith("   ") else "bold", color=INK)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(row - 0.5, -0.5)
        ax.grid(axis="y", visible=False)
        ax.margins(x=0.06)


# Cost against value: what nothing else beats in both.

LONGEST_NAME, MOST_NAMES = 26, 8
"""Characters of a name that stands beside its mark, and how many of them do."""
Corners = tuple[float, float, float, float]
"""Left, bottom, right, top, in points."""


@dataclass(frozen=True)
class Offer:
    """One group: what it costs and gives, both with their ranges, and whether another one is cheaper and better."""

    label: str
    cost: float
    value: float
    dominated: bool
    costs: tuple[float, float] | None = None
    """Smallest and largest cost over seeds; of times this is the noise of the machine."""
    values: tuple[float, float] | None = None
    """95 % interval of the value, or its range over seeds."""
    settled: bool = True
    """Whether the seeds settle that it is dominated."""
    group: str = ""


@dataclass(frozen=True)
class ParetoChart(Chart):
    """Cost against value: filled marks and a line for the Pareto frontier, hollow ones for what is dominated."""

    offers: tuple[Offer, ...]
    log_x: bool = True

    def arranged(self, scheme: Scheme) -> Chart:
        """Names of the scheme."""
        named = tuple(
            replace(o, label=scheme.names.group(o.group)) if o.group in scheme.names.groups else o for o in self.offers
        )
        made = replace(self, offers=named)
        if not made.numbered:
            return made
        best = [offer.label for offer in named if not offer.dominated]
        listed = "\n".join(f"{number}  {label}" for number, label in enumerate(best, 1))
        return replace(made, note=f"{listed}\n{self.note}")

    def table(self) -> Rows:
        """One row per group."""
        header = ("group", self.x_label, "smallest", "largest", self.y_label, "low", "high", "dominated", "settled")
        nothing = (None, None)
        rows = [
            (o.label, o.cost, *(o.costs or nothing), o.value, *(o.values or nothing), o.dominated, o.settled)
            for o in self.offers
        ]
        return header, rows

    def describe(self) -> str:
        """The groups on the frontier."""
        best = [f"{o.label} ({written(o.value)} for {written(o.cost)})" for o in self.offers if not o.dominated]
        return f"Nothing is better and cheaper than {', '.join(best)}; {len(self.offers) - len(best)} are dominated."

    def draw_marks(self, ax: Any) -> None:
        """Ranges as thin bars, marks on top; the frontier's names beside their marks."""
        color = stroke(1).color
        for offer in self.offers:
            tint = SOFT if offer.dominated else color
            bar: Any = {"color": tint, "linewidth": pt(1), "alpha": 0.5, "zorder": 1}
            if offer.costs is not None:
                ax.plot(offer.costs, [offer.value] * 2, **bar)
            if offer.values is not None:
                ax.plot([offer.cost] * 2, offer.values, **bar)
        hollow = [o for o in self.offers if o.dominated]
        best = [o for o in self.offers if not o.dominated]
        for offers, marker, text in (
            ([o for o in hollow if o.settled], "o", "dominated"),
            ([o for o in hollow if not o.settled], "D", "dominated by the medians, not settled by the seeds"),
        ):
            if offers:
                ax.plot(
                    [o.cost for o in offers], [o.value for o in offers], marker, color=SOFT, markerfacecolor=GROUND,
                    markersize=pt(5), label=text, zorder=2,
                )  # fmt: skip
        ax.plot(
            [o.cost for o in best], [o.value for o in best], "o-", color=color, markersize=pt(6.5),
            drawstyle="steps-post", label="nothing is better and cheaper", zorder=3,
        )  # fmt: skip
        if self.log_x:
            ax.set_xscale("log")
        ax.margins(x=0.1, y=0.16)

    @property
    def numbered(self) -> bool:
        """Whether names are too long to stand beside their marks: then numbers do, and the note explains them."""
        best = [offer for offer in self.offers if not offer.dominated]
        return max(len(offer.label) for offer in best) > LONGEST_NAME or len(best) > MOST_NAMES

    def finish(self, ax: Any) -> None:
        """Each name beside its mark where it hides neither a mark nor another name."""
        size = pt(8.5)
        place = ax.get_window_extent()
        per_point = ax.figure.dpi / 72
        marks = [ax.transData.transform((o.cost, o.value)) / per_point for o in self.offers]
        inner = tuple(edge / per_point for edge in (place.x0, place.y0, place.x1, place.y1))
        taken: list[Corners] = [(x - 4, y - 4, x + 4, y + 4) for x, y in marks]
        taken += [box for offer in self.offers for box in _bars(ax, offer, per_point)]
        number = 0
        for offer, mark in zip(self.offers, marks, strict=True):
            if offer.dominated:
                continue
            number += 1
            text = str(number) if self.numbered else offer.label
            # estimates: the room around a name is for what fonts add
            wide, tall = text_width(text, size) + pt(8), text_height(text, size) + pt(5)
            spots = [(x, y, x + wide, y + tall) for x, y in _spots(mark, wide, tall)]
            free = [box for box in spots if _within(box, inner)]
            free = [box for box in free if not any(_overlap(box, other) for other in taken)]
            if free:
                taken.append(free[0])
                offset = (free[0][0] - mark[0], free[0][1] - mark[1])
                _write(ax, legend_text(text), (offer.cost, offer.value), offset, size)


def _bars(ax: Any, offer: Offer, per_point: float) -> list[Corners]:
    """The ranges of an offer, which no name should stand on."""
    ends = [((low, offer.value), (high, offer.value)) for low, high in [offer.costs or (offer.cost, offer.cost)]]
    ends += [((offer.cost, low), (offer.cost, high)) for low, high in [offer.values or (offer.value, offer.value)]]
    found = []
    for first, last in ends:
        (x0, y0), (x1, y1) = (ax.transData.transform(end) / per_point for end in (first, last))
        found.append((x0 - 1, y0 - 1, x1 + 1, y1 + 1))
    return found


def _within(box: Corners, outer: Corners) -> bool:
    return outer[0] <= box[0] and outer[1] <= box[1] and box[2] <= outer[2] and box[3] <= outer[3]


def _spots(mark: Any, wide: float, tall: float) -> list[tuple[float, float]]:
    """Lower left corners of a name around a mark, the nearest first."""
    near = pt(7)
    found = []
    for far, (side, up) in product((1, 2, 3.5, 5, 7), ((1, -1), (1, 1), (-1, 1), (-1, -1), (0, 1), (0, -1))):
        x = mark[0] + (near if side > 0 else -near - wide if side < 0 else -wide / 2)
        y = mark[1] + (near * far * 0.8 if up > 0 else -near * far * 0.8 - tall)
        found.append((x, y))
    return found


def _overlap(a: Corners, b: Corners) -> bool:
    return a[0] < b[2] + 2 and b[0] < a[2] + 2 and a[1] < b[3] and b[1] < a[3]


def _write(ax: Any, text: str, at: tuple[float, float], offset: tuple[float, float], size: float) -> None:
    far = abs(offset[1]) > pt(20)
    line = {"arrowstyle": "-", "color": SOFT, "linewidth": pt(0.6), "shrinkB": pt(3)} if far else None
    ax.annotate(
        text, at, offset, textcoords="offset points", fontsize=size, ha="left", va="bottom", arrowprops=line, zorder=4
    )

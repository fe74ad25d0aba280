"""Cost against value: what nothing else beats in both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from gradlab.report.charts.base import Chart, Rows, legend_text
from gradlab.report.log_axis import log_x
from gradlab.report.look import GROUND, SOFT, pt, stroke
from gradlab.report.text_size import text_height, text_width
from gradlab.spec.numerals import written

if TYPE_CHECKING:
    from gradlab.report.scheme import Scheme

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
            log_x(ax)
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

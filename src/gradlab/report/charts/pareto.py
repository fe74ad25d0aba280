"""Cost against value: what nothing else beats in both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradlab.report.charts.base import Chart, Rows, legend_text
from gradlab.report.log_axis import log_x
from gradlab.report.look import SOFT, stroke

PLACES = (
    (6, -4, "left", "top"), (6, 4, "left", "bottom"), (-6, 4, "right", "bottom"), (-6, -4, "right", "top"),
    (8, -16, "left", "top"), (-8, 16, "right", "bottom"), (8, 18, "left", "bottom"), (10, -28, "left", "top"),
)  # fmt: skip
"""Where a label may stand beside its mark: offset in points, and its own alignment."""


@dataclass(frozen=True)
class Offer:
    """One group: its label, what it costs, what it gives, and whether another one is cheaper and better."""

    label: str
    cost: float
    value: float
    dominated: bool


@dataclass(frozen=True)
class ParetoChart(Chart):
    """Cost against value: filled marks and a line for what is worth its price, hollow ones for what is dominated."""

    offers: tuple[Offer, ...]
    log_x: bool = True

    def table(self) -> Rows:
        """One row per group."""
        return ("group", self.x_label, self.y_label, "dominated"), [
            (o.label, o.cost, o.value, o.dominated) for o in self.offers
        ]

    def describe(self) -> str:
        """The groups on the frontier."""
        best = [f"{o.label} ({o.value:.3g} for {o.cost:.3g})" for o in self.offers if not o.dominated]
        return f"Nothing is better and cheaper than {', '.join(best)}; {len(self.offers) - len(best)} are dominated."

    def draw_marks(self, ax: Any) -> None:
        """The frontier's labels stand where they hide neither each other nor a mark."""
        color = stroke(1).color
        hollow = [(o.cost, o.value) for o in self.offers if o.dominated]
        best = [(o.cost, o.value) for o in self.offers if not o.dominated]
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
        _label_frontier(self.offers, ax)


def _label_frontier(offers: tuple[Offer, ...], ax: Any) -> None:
    """Each label in the first of a few places around its mark that is still free; none where all are taken."""
    ax.figure.canvas.draw()
    taken: list[Any] = []
    marks = [ax.transData.transform((o.cost, o.value)) for o in offers]
    for offer in (offer for offer in offers if not offer.dominated):
        for dx, dy, ha, va in PLACES:
            text = ax.annotate(
                legend_text(offer.label), (offer.cost, offer.value), (dx, dy),
                textcoords="offset points", fontsize=7.5, ha=ha, va=va,
            )  # fmt: skip
            box = text.get_window_extent()
            inside = (
                ax.bbox.x0 <= box.x0 and box.x1 <= ax.figure.bbox.x1 and box.y1 <= ax.bbox.y1 and box.y0 >= ax.bbox.y0
            )
            hides = any(box.overlaps(other) for other in taken) or any(box.contains(*mark) for mark in marks)
            if inside and not hides:
                taken.append(box)
                break
            text.remove()

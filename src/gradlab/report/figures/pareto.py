"""Accuracy against what it costs: the groups that no other group beats in both."""

from __future__ import annotations

import numpy as np

from gradlab.analysis.comparison import Offer as Found
from gradlab.analysis.comparison import offers
from gradlab.analysis.measured import Measured
from gradlab.report.charts import ParetoChart
from gradlab.report.charts.pareto import Offer
from gradlab.report.figures.base import Figure
from gradlab.spec.numerals import written

COST = "seconds_per_epoch"
VALUES = ("test_accuracy", "validation_accuracy")


class Pareto(Figure):
    """Accuracy (or loss) against seconds per epoch: the frontier with labels, dominated groups hollow."""

    name = "pareto"
    shows = ("test_accuracy", "seconds_per_epoch")
    rank = 45

    def chart(self, measured: Measured) -> ParetoChart | None:
        """Only for four groups or more: with fewer there is nothing to choose."""
        value = next((m for m in VALUES if m in measured.metrics), None)
        if value is None or len(measured.group_names) < 4:
            return None
        found = offers(measured, value, COST)
        if len(found) < 4:
            return None
        shown = tuple(_offer(measured, each) for each in found)
        several = measured.seeds_done > 1
        note = "medians over seeds; upright bars: 95 % interval or range of seeds; level bars: times of all seeds, the "
        note = f"{note}noise of the machine" if several else "1 seed: neither the noise of seeds nor of times is known"
        return ParetoChart(
            "Accuracy against time",
            "seconds per epoch",
            value.replace("_", " "),
            shown,
            note=note,
            finding=_finding(measured, found, value.replace("_", " ")),
        )


def _offer(measured: Measured, found: Found) -> Offer:
    times = [float(v) for v in measured.values(COST, found.group).values() if v is not None and np.isfinite(v)]
    worth = found.value_range
    low, high = (worth.smallest, worth.largest) if worth.bounded else (worth.low, worth.high)
    return Offer(
        found.group,
        found.cost,
        found.value,
        found.dominated,
        (min(times), max(times)) if len(times) > 1 else None,
        (low, high) if low is not None and high is not None and low < high else None,
        found.settled,
        found.group,
    )


def _finding(measured: Measured, found: tuple[Found, ...], what: str) -> str:
    best = [offer for offer in found if not offer.dominated]
    cheap, good = best[0], best[-1]

    def say(offer: Found) -> str:
        return (
            f"{measured.names.group(offer.group)} ({what} {written(offer.value)}, {written(offer.cost, 2)} s per epoch)"
        )

    if len(best) == 1:
        return f"One of {len(found)} groups is both the best and the fastest: {say(good)}."
    return (
        f"Pareto-optimal, so that no other group is both better and faster, are {len(best)} of {len(found)} groups: "
        f"from {say(cheap)} to {say(good)}."
    )

"""Accuracy against what it costs: the groups that no other group beats in both."""

from __future__ import annotations

from gradlab.analysis.axis import axes_of
from gradlab.analysis.measured import Measured
from gradlab.analysis.pareto import offers
from gradlab.report.charts import ParetoChart
from gradlab.report.charts.pareto import Offer
from gradlab.report.figures.base import Figure
from gradlab.spec.short import short


class Pareto(Figure):
    """Accuracy (or loss) against seconds per epoch: the frontier with labels, dominated groups hollow."""

    name = "pareto"
    shows = ("test_accuracy", "seconds_per_epoch")
    rank = 45

    def chart(self, measured: Measured) -> ParetoChart | None:
        """Only for four groups or more: with fewer there is nothing to choose."""
        value = next((m for m in ("test_accuracy", "validation_accuracy") if m in measured.metrics), None)
        if value is None or len(measured.group_names) < 4:
            return None
        found = offers(measured, value, "seconds_per_epoch")
        if len(found) < 4:
            return None
        note = "medians over seeds"
        unsettled = sum(offer.dominated and not offer.settled for offer in found)
        note += f"; of {unsettled} hollow ones it is not settled that they are dominated" if unsettled else ""
        if axes := _axis_names(measured, found[0].group):
            note += f"; labels: {' · '.join(axes)}"
        shown = tuple(Offer(_label(measured, offer.group), offer.cost, offer.value, offer.dominated) for offer in found)
        return ParetoChart("What is worth its price", "seconds per epoch", value.replace("_", " "), shown, note=note)


def _paths(measured: Measured, group: str) -> list[str]:
    """The axes that a group of a grid lies on; none where arms have names of their own."""
    if measured.study.arms is not None:
        return []
    return [path for path in axes_of(measured) if path in measured.entries[group].group.settings]


def _axis_names(measured: Measured, group: str) -> list[str]:
    return [path.split(".")[-1] for path in _paths(measured, group)]


def _label(measured: Measured, group: str) -> str:
    """The values of a group on its axes; its name where it has none."""
    settings, catalog = measured.entries[group].group.settings, measured.plan.catalog
    return " · ".join(short(path, settings[path], catalog) for path in _paths(measured, group)) or group

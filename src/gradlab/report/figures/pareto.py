"""What is worth its price."""

from __future__ import annotations

from gradlab.analysis.axis import words
from gradlab.analysis.measured import Measured
from gradlab.analysis.pareto import offers
from gradlab.report.axis_chart import ParetoChart
from gradlab.report.figures.base import Figure


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
        names = {offer.group: words(measured, offer.group) for offer in found}
        brief = {group: " · ".join(word.split("=", 1)[-1] for word in said) for group, said in names.items()}
        said = next(iter(names.values()))
        note = "medians over seeds"
        unsettled = sum(offer.dominated and not offer.settled for offer in found)
        note += f"; of {unsettled} hollow ones it is not settled that they are dominated" if unsettled else ""
        if all("=" in word for word in said):
            note += f"; labels: {' · '.join(word.split('=')[0] for word in said)}"
        rows = tuple((brief[offer.group], offer.cost, offer.value, offer.dominated) for offer in found)
        return ParetoChart("What is worth its price", "seconds per epoch", value.replace("_", " "), rows, note=note)

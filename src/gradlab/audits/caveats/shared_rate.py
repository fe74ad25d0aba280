"""Arms that train at one learning rate, which suits some of them better than others."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.audits.pairs import factor_of
from gradlab.audits.settings import find_varied
from gradlab.audits.tuning import tuned_paths

CHANGES_THE_BEST = ("model.", "train.optimizer.", "train.loss.", "train.batch")
"""Settings on which the best learning rate depends."""


class SharedRate(Caveat):
    """All arms share a learning rate that is not tuned for each of them."""

    name = "shared_rate"
    rank = 45

    def remarks(self, design: Design) -> Iterator[Remark]:
        """If the arms differ in what decides the best rate, train at all, and the rate itself never varies."""
        study = design.plan.resolved.study
        if "train.lr" in tuned_paths(study):
            return
        varied = find_varied(design.groups(), factor_of(study))
        if not any(path.startswith(CHANGES_THE_BEST) for path in varied):
            return
        if all(design.planned(name).cost.steps == 0 for name in design.starts):
            return
        rates = {planned.group.config.train.lr for planned in design.plan.groups}
        if len(rates) == 1:
            yield Remark(
                self.name,
                f"One learning rate: every arm trains at {rates.pop():g}, and the study does not tune it for each arm. "
                "At another learning rate the order of the arms could be different; `tune: {train.lr: …}` "
                "gives each arm its own.",
                short="one learning rate for all arms, tuned for none",
            )

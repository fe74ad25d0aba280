"""Values that were tuned on the test set, or with less training than the arms are judged with."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark


class Tuned(Caveat):
    """What the way in which the arms were tuned leaves open."""

    name = "tuning"
    rank = 46

    def remarks(self, design: Design) -> Iterator[Remark]:
        """Selection on the test set; a smaller budget; fewer than three tuning seeds."""
        tuning = design.plan.tuning
        if tuning is None:
            return
        if tuning.metric.split == "test":
            yield Remark(
                self.name,
                f"Tuned on the test set: values are chosen by {tuning.metric.name}, so results on the test set are too "
                "good. Tune by validation_loss.",
            )
        tried = max(planned.cost.steps for planned in tuning.plan.groups)
        judged = max(planned.cost.steps for planned in design.plan.groups)
        if tried < judged:
            yield Remark(
                self.name,
                f"Tuned with a smaller budget: values are chosen after {tried:,} updates, in every arm, and judged "
                f"after {judged:,}. The best value for the whole budget may be another.",
            )
        if tuning.tune.seeds == 1:
            yield Remark(self.name, "Tuned on one seed: which value is best may be luck, in every arm.")

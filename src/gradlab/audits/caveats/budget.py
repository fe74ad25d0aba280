"""Arms that make unequal numbers of updates, or equal numbers and see unequal numbers of samples."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.spec.numerals import written

SLIGHTLY = 1.05


class Budget(Caveat):
    """One arm makes many more updates, or sees many more samples, than another."""

    name = "budget"
    rank = 15

    def remarks(self, design: Design) -> Iterator[Remark]:
        """The pair that is furthest apart, in updates and in samples."""
        if any(design.planned(name).config.train.early_stopping is not None for name in design.starts):
            yield Remark(
                self.name,
                "Early stopping: each network ends training on its own, so arms make unequal numbers of updates "
                "(epochs_trained). Compare the best epoch, or train all of them equally long.",
            )
        updates = {name: design.planned(name).cost.steps for name in design.starts}
        found = design.furthest(updates)
        if found is None:
            return
        few, many = found
        if updates[many] > SLIGHTLY * max(updates[few], 1):
            ratio = written(updates[many] / max(updates[few], 1))
            least, most = design.subject(few), design.subject(many)
            yield Remark(
                self.name,
                f"Unequal updates: {most} makes {updates[many]:,} updates, {least} makes {updates[few]:,} "
                f"({ratio} times fewer{_epochs(design, few, many)}). A worse result with fewer updates may be nothing "
                "but less training.",
                base={"train.epochs": None, "train.steps": updates[few]},
                short=f"{least} makes {ratio} times fewer updates than {most}",
            )
            return
        samples = {name: _samples(design, name) for name in design.starts}
        few, many = design.furthest(samples) or (few, many)
        if samples[many] > SLIGHTLY * max(samples[few], 1):
            ratio = written(samples[many] / max(samples[few], 1))
            least, most = design.subject(few), design.subject(many)
            yield Remark(
                self.name,
                f"Unequal samples: at equal updates {most} sees {samples[many]:,} samples, {least} sees "
                f"{samples[few]:,} ({ratio} times fewer).",
                short=f"{least} sees {ratio} times fewer samples than {most}",
            )


def _epochs(design: Design, few: str, many: str) -> str:
    """Whether the reason is an equal number of epochs."""
    given = {design.planned(name).group.config.train.epochs for name in (few, many)}
    return ", in the same number of epochs" if len(given) == 1 and None not in given else ""


def _samples(design: Design, name: str) -> int:
    planned = design.planned(name)
    batch = planned.group.config.train.batch
    rows: int = planned.group.config.data.build(design.plan.resolved.catalog).facts().samples
    size = rows if batch == "full" else min(int(batch), rows)
    return min(planned.cost.steps * size, planned.cost.steps * rows // max(planned.cost.steps_per_epoch, 1))

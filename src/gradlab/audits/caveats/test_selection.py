"""A test set that takes part in training or in choosing what is reported."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.spec.config import Config
from gradlab.trials.recorder import METRICS


class TestSelection(Caveat):
    """The best epoch, the end of training or the learning rate is chosen by a metric of the test set."""

    __test__ = False  # for pytest: this is no test
    name = "test_selection"
    rank = 35

    def remarks(self, design: Design) -> Iterator[Remark]:
        """One remark for each thing that the test set decides in any group."""
        configs = [planned.group.config for planned in design.plan.groups]
        best = configs[0].measure.best
        if best is not None and METRICS[best].split == "test":
            yield Remark(
                self.name,
                f"Selection on the test set: the best epoch is chosen by {best}, so this selects on the test set. The "
                "best of many evaluations on the same samples is better than new samples would give; choose by "
                "validation samples (measure.best: validation_loss) and report the test set at that epoch.",
            )
        catalog = design.plan.resolved.catalog
        if any(_is_test(_stopped_by(config)) for config in configs):
            yield Remark(
                self.name,
                "Selection on the test set: early stopping looks at test samples, so they decide how long a network "
                "is trained. Use train.early_stopping.by: validation_loss.",
            )
        reactions = (config.train.schedule.build(catalog).reaction(config.train.lr) for config in configs)
        if any(reaction is not None and _is_test(reaction.metric) for reaction in reactions):
            yield Remark(
                self.name,
                "Selection on the test set: the learning rate is reduced by what the test samples show. Use "
                "train.schedule.by: validation_loss.",
            )


def _stopped_by(config: Config) -> str | None:
    return None if config.train.early_stopping is None else config.train.early_stopping.by


def _is_test(metric: str | None) -> bool:
    return metric is not None and METRICS[metric].split == "test"

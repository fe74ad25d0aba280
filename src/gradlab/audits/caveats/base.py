"""The base of every caveat: a reason why even a fair comparison leaves a cause open."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from gradlab.audits.pairs import Pair, classes_of
from gradlab.audits.start import Start
from gradlab.data.base import Dataset, SplitName
from gradlab.facts import Fact
from gradlab.parts import Part
from gradlab.plans.plan import Plan, PlannedGroup
from gradlab.spec.config import Group
from gradlab.spec.metric import Metric, Metrics, split_of
from gradlab.spec.naming import Names, say_inside, say_subject
from gradlab.trials.metrics import declared_metrics

SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")


@dataclass(frozen=True)
class Remark(Fact):
    """One thing that the design cannot attribute, and what would separate it.

    Its code is by default the caveat's name. A `problem` fails the audit: results would not mean what the study says.
    """

    axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Axes that a study needs to tell the causes apart: path -> values."""
    base: Mapping[str, Any] = field(default_factory=dict)
    """Settings that such a study changes for all arms."""
    short: str = ""
    """The same in one clause, for a terminal: what else could explain a difference."""


@dataclass(frozen=True)
class Design:
    """What a caveat examines: the plan, the compared pairs, and each of their groups before its first step."""

    plan: Plan
    pairs: tuple[Pair, ...]
    starts: Mapping[str, Start]
    data: Mapping[str, Dataset] = field(default_factory=dict)
    """Group -> its data at the first seed; groups with the same settings of data share one. Never empty."""

    def groups(self) -> list[list[Group]]:
        """The groups that are compared with each other, class by class."""
        return classes_of(self.pairs)

    def classes(self) -> list[list[str]]:
        """The same by name."""
        return [[group.name for group in groups] for groups in self.groups()]

    def furthest(self, sizes: Mapping[str, float]) -> tuple[str, str] | None:
        """The two groups of a class whose sizes are furthest apart, the smaller first."""
        ends = [(min(names, key=sizes.__getitem__), max(names, key=sizes.__getitem__)) for names in self.classes()]
        return max(ends, key=lambda two: sizes[two[1]] / max(sizes[two[0]], 1), default=None)

    @cached_property
    def names(self) -> Names:
        """What people call the groups."""
        study = self.plan.resolved.study
        groups = [planned.group for planned in self.plan.groups]
        return Names(groups, self.plan.resolved.catalog, arms=study.arms is not None, labels=study.labels)

    def subject(self, group: str) -> str:
        """A group that does something: `the plain network`, `the arm with 5 layers, no skip`."""
        return say_subject(self.names, group)

    def inside(self, group: str) -> str:
        """Where something happens: `in the plain network`, `at 30 layers without the skip`."""
        return say_inside(self.names, group)

    def planned(self, group: str) -> PlannedGroup:
        """A group with its cost."""
        return next(found for found in self.plan.groups if found.group.name == group)

    @cached_property
    def metrics(self) -> Metrics:
        """Every metric that the study can ask for."""
        return declared_metrics(self.plan.catalog)

    @cached_property
    def judged(self) -> tuple[Metric, ...]:
        """The metrics that headline and claims rest on; of `a/b` both, of the time to a target what has to reach it.

        A study without a headline is answered by its test metrics, where there are test samples.
        """
        study = self.plan.resolved.study
        target = study.target.metric if study.target is not None else ""
        names = [claim.metric for claim in study.claims if claim.metric]
        names += [study.headline.metric] if study.headline is not None else [self._usual_metric]
        single = [part.strip() for name in names for part in name.split("/")]
        behind = {"steps_to_target": target, "epochs_to_target": target, "collapsed": self._usual_metric}
        return tuple(self.metrics[behind.get(name) or name] for name in dict.fromkeys(single))

    @property
    def judged_on(self) -> tuple[SplitName, ...]:
        """The splits that those metrics are evaluated on."""
        found = {metric.split for metric in self.judged}
        return tuple(split for split in SPLITS if split in found)

    @cached_property
    def deciding(self) -> tuple[SplitName, ...]:
        """The splits by which something is chosen: tuned values, the best epoch, the end of training, a reduction."""
        catalog, tuning = self.plan.resolved.catalog, self.plan.tuning
        names: list[str | None] = [] if tuning is None else [tuning.metric.name]
        for planned in self.plan.groups:
            train, stopping = planned.config.train, planned.config.train.early_stopping
            reaction = train.schedule.build(catalog).reaction(train.lr)
            names += [planned.config.measure.best, None if stopping is None else stopping.by]
            names += [None if reaction is None else reaction.metric]
        found = {split_of(name) for name in names if name is not None}
        return tuple(split for split in SPLITS if split in found)

    @property
    def _usual_metric(self) -> str:
        """What answers a study that names no headline."""
        data = next(iter(self.data.values()))
        trained = any(planned.cost.steps for planned in self.plan.groups)
        split = next((split for split in reversed(SPLITS[1:]) if trained and len(data.rows(split))), "")
        return f"{split}_{'loss' if data.classes is None else 'accuracy'}" if split else "final_loss"


class Caveat(Part):
    """Examines a design and says what it cannot attribute, if anything. `rank` is its place in the audit."""

    part: ClassVar[str] = "caveat"

    @abstractmethod
    def remarks(self, design: Design) -> Iterator[Remark]:
        """One remark per weakness; none where the design has no such weakness.

        design: the plan, the pairs that are compared, and every group before its first step; read only.
        A remark's words are whole sentences. Must be deterministic: the audit is stored with the run.
        """

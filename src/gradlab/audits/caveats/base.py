"""The base of every caveat: a reason why even a fair comparison leaves a cause open."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from gradlab.audits.pairs import Pair, classes_of
from gradlab.audits.start import Start
from gradlab.parts import Part
from gradlab.plans.plan import Plan, PlannedGroup
from gradlab.spec.expand import Group
from gradlab.spec.naming import Names
from gradlab.spec.phrasing import say_inside, say_subject


@dataclass(frozen=True)
class Remark:
    """One thing that the design cannot attribute, and what would separate it."""

    kind: str
    words: str
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


class Caveat(Part):
    """Examines a design and says what it cannot attribute, if anything. `rank` is its place in the audit."""

    part: ClassVar[str] = "caveat"

    @abstractmethod
    def remarks(self, design: Design) -> Iterator[Remark]:
        """One remark per weakness; none where the design has no such weakness.

        design: the plan, the pairs that are compared, and every group before its first step; read only.
        A remark's words are whole sentences. Must be deterministic: the audit is stored with the run.
        """

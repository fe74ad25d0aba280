"""The plan of a study of somebody's own code: names, settings and hashes; the rest comes back with the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from gradlab.errors import StudyError
from gradlab.parts import BUILT_IN, Catalog
from gradlab.plans.cost import Cost
from gradlab.spec.canonical import content_id
from gradlab.spec.code import CodeStudy
from gradlab.spec.config import Config
from gradlab.spec.question import Condition
from gradlab.spec.selection import chosen
from gradlab.trials.trial import TrialLabel, group_id, trial_id

A_WHILE = 60.0
"""Seconds of a trial, for want of knowledge: each is handed out by itself."""


@dataclass(frozen=True)
class CodeGroup:
    """An arm; of its trials nothing is known before they ran."""

    group: Condition
    content: str
    numerics: str

    engine: str = "code"
    stated: str = ""
    classes: int | None = None
    config: Config | None = None
    cost: Cost | None = None
    rough_seconds: float = A_WHILE

    @property
    def id(self) -> str:
        """The hash of all that decides its results but the seed, as far as the lab can see."""
        return group_id(self.content, self.numerics)


@dataclass(frozen=True)
class CodePlan:
    """Every arm under every seed, seed by seed."""

    study: CodeStudy
    groups: tuple[CodeGroup, ...]

    @cached_property
    def trials(self) -> tuple[TrialLabel, ...]:
        """All trials, so ordered that arms stay paired if a run is cut short."""
        return tuple(
            TrialLabel(trial_id(arm.id, seed), arm.group.name, seed)
            for seed in self.study.trial_seeds
            for arm in self.groups
        )

    @property
    def catalog(self) -> Catalog:
        """The built-in parts: figures."""
        return BUILT_IN

    @property
    def quick(self) -> bool:
        """The budget is the function's own."""
        return False

    @property
    def announcements(self) -> tuple[str, ...]:
        """None: the lab trains nothing here."""
        return ()

    @property
    def own_code(self) -> bool:
        """It is somebody's own code that is compared."""
        return True


def code_plan(study: CodeStudy, numerics: str) -> CodePlan:
    """The trials of a comparison; a `StudyError` where a claim speaks of an arm that is not there."""
    plan = planned(study, [numerics] * len(study.arms))
    for index, claim in enumerate(study.claims):
        if claim.metric is not None:
            try:
                chosen(claim, [arm.group for arm in plan.groups])
            except StudyError as error:
                raise StudyError(f"claims.{index}.{error}") from None
    return plan


def planned(study: CodeStudy, numerics: Sequence[str]) -> CodePlan:
    """The plan of arms that were computed under these numerics."""
    arms = zip(study.arms.items(), numerics, strict=True)
    groups = tuple(
        CodeGroup(Condition(name, dict(settings)), content_id([study.code.sha256, settings]), own)
        for (name, settings), own in arms
    )
    return CodePlan(study, groups)

"""The plan of a study of users' code: names, settings and hashes. The rest is known only from the results."""

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

UNKNOWN_SECONDS = 60.0
"""Assumed seconds per trial, because the real time is unknown. Each trial is submitted by itself."""


@dataclass(frozen=True)
class CodeGroup:
    """An arm. Nothing is known about its trials before they run."""

    group: Condition
    content: str
    numerics: str

    engine: str = "code"
    stated: str = ""
    classes: int | None = None
    config: Config | None = None
    cost: Cost | None = None
    rough_seconds: float = UNKNOWN_SECONDS

    @property
    def id(self) -> str:
        """Hash of everything but the seed that determines its results, as far as is known."""
        return group_id(self.content, self.numerics)


@dataclass(frozen=True)
class CodePlan:
    """Every arm with every seed, seed by seed."""

    study: CodeStudy
    groups: tuple[CodeGroup, ...]

    @cached_property
    def trials(self) -> tuple[TrialLabel, ...]:
        """All trials, ordered so that arms stay paired if a run is interrupted."""
        return tuple(
            TrialLabel(trial_id(arm.id, seed), arm.group.name, seed)
            for seed in self.study.trial_seeds
            for arm in self.groups
        )

    @property
    def all_trials(self) -> tuple[TrialLabel, ...]:
        """The same: nothing is tuned."""
        return self.trials

    @property
    def catalog(self) -> Catalog:
        """The built-in parts, for figures."""
        return BUILT_IN

    @property
    def quick(self) -> bool:
        """False: the function defines its own budget."""
        return False

    @property
    def announcements(self) -> tuple[str, ...]:
        """Empty: no engine is involved."""
        return ()

    @property
    def own_code(self) -> bool:
        """True: the trials call user code."""
        return True


def code_plan(study: CodeStudy, numerics: str) -> CodePlan:
    """Plan the trials of a comparison; a `StudyError` if a claim names an arm that does not exist."""
    plan = plan_arms(study, [numerics] * len(study.arms))
    for index, claim in enumerate(study.claims):
        if claim.metric is not None:
            try:
                chosen(claim, [arm.group for arm in plan.groups])
            except StudyError as error:
                raise error.below("claims", index) from None
    return plan


def plan_arms(study: CodeStudy, numerics: Sequence[str]) -> CodePlan:
    """Plan the arms with these numerics."""
    arms = zip(study.arms.items(), numerics, strict=True)
    groups = tuple(
        CodeGroup(Condition(name, dict(settings)), content_id([study.code.sha256, settings]), own)
        for (name, settings), own in arms
    )
    return CodePlan(study, groups)

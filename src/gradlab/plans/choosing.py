"""A plan of some groups only, with further labels: what a figure of chosen groups is drawn from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from gradlab.plans.code import CodePlan
from gradlab.plans.outline import Outline
from gradlab.plans.plan import Plan


def choose_groups(plan: Outline, groups: Collection[str], labels: Mapping[str, str]) -> Outline:
    """The plan with these of its groups, in its own order; trials keep their ids."""
    update = {"labels": {**plan.study.labels, **labels}}
    if isinstance(plan, Plan):
        resolved = replace(plan.resolved, study=plan.resolved.study.model_copy(update=update))
        kept = tuple(planned for planned in plan.groups if planned.group.name in groups)
        return replace(plan, resolved=resolved, groups=kept, trials=tuple(t for t in plan.trials if t.group in groups))
    assert isinstance(plan, CodePlan)
    kept_arms = tuple(planned for planned in plan.groups if planned.group.name in groups)
    return replace(plan, study=plan.study.model_copy(update=update), groups=kept_arms)

"""A plan as plain data and back: a run can be looked at later without its data, at no cost of planning again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gradlab.plan.cost import Cost
from gradlab.plan.plan import Plan, PlannedGroup, trials_of
from gradlab.spec.files import Resolved
from gradlab.trial.trial import trial_id

_FIELDS = ("classification", "stated", "engine", "reason", "numerics", "id")


def saved(plan: Plan) -> dict[str, Any]:
    """All that planning found out, group by group; the study itself is kept beside it."""
    return {
        "study": plan.resolved.study.name,
        "question": plan.resolved.study.question,
        "quick": plan.resolved.quick,
        "seeds": list(plan.resolved.study.trial_seeds),
        "groups": [
            {"name": found.group.name, **{name: getattr(found, name) for name in _FIELDS}, "cost": asdict(found.cost)}
            for found in plan.groups
        ],
    }


def restored(tree: Mapping[str, Any], resolved: Resolved) -> Plan:
    """The plan of a resolved study, from what `saved` gave."""
    groups = tuple(
        PlannedGroup(group, Cost(**found["cost"]), **{name: found[name] for name in _FIELDS})
        for group, found in zip(resolved.groups, tree["groups"], strict=True)
    )
    return Plan(resolved, groups, trials_of(resolved, [found.id for found in groups]))


def trial_ids(tree: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Trial id -> (group, seed) of a saved plan."""
    return {trial_id(group["id"], seed): (group["name"], seed) for seed in tree["seeds"] for group in tree["groups"]}

"""A plan as plain data and back: a run can be looked at later without its data, at no cost of planning again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gradlab.errors import StoreError
from gradlab.plan.cost import Cost
from gradlab.plan.plan import Plan, PlannedGroup, trials_of
from gradlab.spec.files import Resolved
from gradlab.trial.trial import trial_id

_FIELDS = ("classes", "stated", "engine", "reason", "numerics", "id", "content")
_KEYS = {"study": str, "question": str, "quick": bool, "seeds": list, "groups": list, "tree": dict}


def saved(plan: Plan) -> dict[str, Any]:
    """The study and all that planning found out, group by group."""
    study = plan.resolved.study
    return {
        "study": study.name,
        "question": study.question,
        "quick": plan.resolved.quick,
        "seeds": list(study.trial_seeds),
        "groups": [
            {"name": found.group.name, **{name: getattr(found, name) for name in _FIELDS}, "cost": asdict(found.cost)}
            for found in plan.groups
        ],
        "tree": study.model_dump(mode="json", exclude_unset=True, exclude_none=True),
    }


def check_saved(tree: Mapping[str, Any], source: str) -> None:
    """A `StoreError` if this is not what `saved` gave."""
    for key, kind in _KEYS.items():
        if not isinstance(tree.get(key), kind):
            raise StoreError(f"{source} is damaged: {key!r} is missing or not what was written")
    for group in tree["groups"]:
        if not isinstance(group, dict) or not {"name", "cost", *_FIELDS} <= group.keys():
            raise StoreError(f"{source} is damaged: its groups are not what was written")


def restored(tree: Mapping[str, Any], resolved: Resolved) -> Plan:
    """The plan of a resolved study, from what `saved` gave."""
    found = {group["name"]: group for group in tree["groups"]}
    names = [group.name for group in resolved.groups]
    if sorted(found) != sorted(names) or list(resolved.study.trial_seeds) != tree["seeds"]:
        raise StoreError("the saved plan does not belong to its study; run the study again")
    groups = tuple(
        PlannedGroup(group, Cost(**found[group.name]["cost"]), **{name: found[group.name][name] for name in _FIELDS})
        for group in resolved.groups
    )
    return Plan(resolved, groups, trials_of(resolved, [group.id for group in groups]))


def trial_ids(tree: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Trial id -> (group, seed) of a saved plan."""
    return {trial_id(group["id"], seed): (group["name"], seed) for seed in tree["seeds"] for group in tree["groups"]}

"""What is frozen of a plan before its first trial: claims, seeds, groups with their settings, and the question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradlab.spec.base import content_id, plain_json

if TYPE_CHECKING:
    from gradlab.plans.plan import Plan

_FIELDS = (
    "question",
    "factor",
    "consequences",
    "headline",
    "published",
    "levels",
    "other_data",
    "not_comparable",
    "tune",
    "matters",
)
"""Fields of a study, besides claims, that decide how its results are read."""


def frozen(plan: Plan) -> dict[str, Any]:
    """The frozen part of a plan as plain data; `id` is its hash.

    A study that tunes freezes its arms at the values of the base and every value that will be tried; what is chosen
    follows from the results of those. Settings and labels are for people and not part of the hash: a group's own id
    stands for its settings, and a run that is opened without the code of its parts does not know their defaults.
    """
    study = plan.study
    tree = study.model_dump(mode="json", include=set(_FIELDS), exclude_defaults=True)
    tuning = plan.tuning
    groups = plan.groups if tuning is None else tuning.base.groups
    content = {
        "study": study.name,
        "claims": [claim.model_dump(mode="json", exclude_defaults=True) for claim in study.claims],
        "seeds": list(study.trial_seeds),
        "groups": [
            {"name": planned.group.name, "id": planned.id, "settings": _plain(dict(planned.group.settings))}
            for planned in groups
        ],
        "fields": {name: tree[name] for name in _FIELDS if name in tree},
        "quick": plan.quick,
        "kind": "code" if plan.own_code else "study",
        **({} if study.until_settled is None else {"until_settled": study.until_settled.most}),
    }
    if tuning is not None:
        tried = [{"name": planned.group.name, "id": planned.id} for planned in tuning.plan.groups]
        content["tuning"] = {"seeds": list(tuning.tune.tuning_seeds), "groups": tried}
    plain: dict[str, Any] = plain_json(content)
    hashed = {**plain, "groups": [{"name": group["name"], "id": group["id"]} for group in plain["groups"]]}
    return {**plain, "id": content_id(hashed), "labels": plain_json(dict(study.labels))}


def _plain(value: Any) -> Any:
    """Settings as JSON has them; anything else as its text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)

"""The study that would separate the causes: the factor crossed with the other causes that the audit found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradlab.audits.caveats.base import Remark
from gradlab.audits.pairs import overlap
from gradlab.plans.plan import Plan
from gradlab.spec.paths import value_at, with_value

FEWEST_SEEDS = 5
CARRIED = ("parts", "measure", "headline", "levels", "seed")
"""Sections of the study that the suggested one keeps as they are."""


def suggest_study(
    plan: Plan, factor: Sequence[str], remarks: Sequence[Remark], undeclared: Mapping[str, tuple[Any, ...]]
) -> dict[str, Any] | None:
    """Build a study tree, ready for YAML; None if there is nothing left to separate."""
    study = plan.resolved.study
    causes: dict[str, tuple[Any, ...]] = dict(undeclared)
    changes: dict[str, Any] = {}
    for remark in remarks:
        causes |= {path: values for path, values in remark.axes.items() if path not in causes}
        changes |= remark.base
    own = {path: _values(plan, path) for path in dict.fromkeys([*factor, *(study.axes or {}), *(study.zip or {})])}
    axes = {path: values for path, values in own.items() if len(values) > 1}
    new = {path: values for path, values in causes.items() if not any(overlap(path, own) for own in axes)}
    if not new and not changes:
        return None
    tree = study.model_dump(mode="json", exclude_unset=True)
    base = dict(tree["base"])
    for path, value in changes.items():
        base = with_value(base, path, value)
        if value is None:
            del base[path.split(".")[0]][path.split(".")[1]]
    names = " and ".join(path.split(".")[-1] for path in [*axes, *new])
    kept = {key: tree[key] for key in CARRIED if key in tree}
    return {
        "name": f"{study.name[:48]}-separated",
        "question": f"Which of {names} makes the difference?" if len([*axes, *new]) > 1 else study.question,
        "source": f"The factorial study that separates the causes of `{study.name}`, as its audit proposes",
        "factor": [*axes, *new],
        "base": base,
        "axes": {path: [_plain(value) for value in values] for path, values in {**axes, **new}.items()},
        "seeds": max(FEWEST_SEEDS, len(study.trial_seeds)),
        **kept,
    }


def _values(plan: Plan, path: str) -> tuple[Any, ...]:
    """The distinct values of all groups at a path."""
    found: list[Any] = []
    for planned in plan.groups:
        value = value_at(planned.group.config.model_dump(mode="json"), path)
        if value not in found:
            found.append(value)
    return tuple(found)


def _plain(value: Any) -> Any:
    """A part without parameters by its name alone."""
    if isinstance(value, Mapping):
        given = {key: item for key, item in value.items() if item is not None}
        return given["kind"] if set(given) == {"kind"} else given
    return value

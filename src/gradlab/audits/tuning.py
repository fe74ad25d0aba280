"""The audit of a tuning: every arm is tried at the same values, on as many seeds, with the same budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradlab.plans.plan import Plan
from gradlab.spec.expand import own_paths
from gradlab.spec.naming import name_setting
from gradlab.spec.paths import distinct, label
from gradlab.spec.study import Study
from gradlab.words import join

MOST_VALUES = 4


def tuned_paths(study: Study) -> tuple[str, ...]:
    """The settings of which every arm gets its own best value."""
    return () if study.tune is None else tuple(study.tune.paths)


def find_unequal_tuning(plan: Plan) -> dict[str, str]:
    """Differences between arms in what they are tried at: trait -> words; empty if every arm gets the same."""
    tuning = plan.tuning
    if tuning is None:
        return {}
    arms = [planned.group.name for planned in plan.groups]
    study, own = plan.study, own_paths(plan.study)
    found: dict[str, str] = {}
    for path in tuned_paths(study):
        setting = [arm for arm in arms if study.arms is not None and path in own[arm]]
        values = {arm: distinct(candidate.values[path] for candidate in tuning.of(arm)) for arm in arms}
        if setting and len(arms) > 1:
            others = max(len(tried) for tried in values.values())
            found[f"tuning of {path}"] = (
                f"{path}: {join(setting)} {'sets' if len(setting) == 1 else 'set'} it and {'is' * (len(setting) == 1)}"
                f"{'are' * (len(setting) > 1)} not tuned, other arms are tried at {others} values"
            )
        elif len({repr(tried) for tried in values.values()}) > 1:
            first, other = _two_that_differ(values)
            found[f"tuning of {path}"] = (
                f"values tried of {path}: {_shown(values[first])} in {first}, {_shown(values[other])} in {other}"
            )
    counts = {arm: len(tuning.of(arm)) for arm in arms}
    if len(set(counts.values())) > 1:
        few, many = min(arms, key=counts.__getitem__), max(arms, key=counts.__getitem__)
        seeds = tuning.tune.seeds
        found["tuning trials"] = (
            f"tuning trials: {counts[few] * seeds:,} in {few}, {counts[many] * seeds:,} in {many}; unequal budgets"
        )
    return found


def tried_values(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Arm -> the distinct points at which it is tried; empty if the study tunes nothing."""
    if plan.tuning is None:
        return {}
    arms = [planned.group.name for planned in plan.groups]
    return {arm: tuple(dict.fromkeys(repr(dict(each.values)) for each in plan.tuning.of(arm))) for arm in arms}


def describe_tuning(plan: Plan) -> str:
    """`Each arm at its own best learning rate, chosen from the same 9 values with the same budget: …`."""
    tuning = plan.tuning
    if tuning is None or find_unequal_tuning(plan):
        return ""
    tune, arm = tuning.tune, plan.groups[0].group.name
    what = join([name_setting(path) for path in tune.paths])
    count, several = len(tuning.of(arm)), len(tune.paths) > 1
    if len(tried_values(plan)[arm]) == 1:
        return f"Each arm at the one {what} that was tried ({tuning.of(arm)[0].words}): nothing was chosen."
    kind = "points" if several or tune.search != "grid" else "values"
    points = f"the same {count:,} {'random ' * (tune.search != 'grid')}{kind}"
    budget = "".join(f", {value:,} {path.split('.')[-1]} each" for path, value in tune.budget.items())
    return (
        f"Each arm at its own best {what}, chosen from {points} with the same budget: {count * tune.seeds:,} tuning "
        f"trials{budget}, by {tune.by}, on seeds of their own."
    )


def _two_that_differ(values: Mapping[str, Sequence[Any]]) -> tuple[str, str]:
    first = next(iter(values))
    return first, next(arm for arm in values if values[arm] != values[first])


def _shown(values: Sequence[Any]) -> str:
    if len(values) <= MOST_VALUES:
        return ", ".join(map(label, values))
    return f"{label(values[0])} … {label(values[-1])} ({len(values)} values)"

"""From what a page sets to the plan of the study that it stands for, within the limits of the lab."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab import api
from gradlab.data.base import Task
from gradlab.errors import StudyError
from gradlab.parts import BUILT_IN
from gradlab.plans.plan import Plan, PlannedGroup
from gradlab.spec.naming import Names
from gradlab.web.limits import check_plan
from gradlab.web.settings import PATHS, TASKS, Settings, make_tree
from gradlab.web.uploads import Uploads


def describe_data(settings: Settings, uploads: Uploads) -> Mapping[str, Any]:
    """The task as a study writes it."""
    return TASKS[settings.task] if settings.task in TASKS else uploads.get(settings.upload).data


def study_tree(settings: Settings, uploads: Uploads, name: str = "lab") -> dict[str, Any]:
    """The study that a page stands for, as a tree."""
    data = describe_data(settings, uploads)
    task: Task = BUILT_IN.make("task", data["task"], {key: value for key, value in data.items() if key != "task"})
    return make_tree(settings, data, classes=task.facts().classes is not None, name=name)


def plan_settings(settings: Settings, uploads: Uploads, others: int = 0) -> Plan:
    """The plan of a page: two trials; a sentence where it cannot be trained or is too large."""
    try:
        plan = api.plan(study_tree(settings, uploads))
    except StudyError as error:  # a page has settings, not paths of a study
        raise StudyError("; ".join(dict.fromkeys(found.message for found in error.problems))) from None
    check_plan(plan, others)
    return plan


def name_arms(settings: Settings, plan: Plan) -> tuple[str, str]:
    """What people call the two networks: by what sets them apart."""
    if not settings.differing:
        return "the same", "the same"
    names = Names([planned.group for planned in plan.groups], plan.catalog, arms=True).by_settings

    def say(planned: PlannedGroup) -> str:
        own = planned.group.settings
        paths = [PATHS[name] for name in settings.differing]
        return ", ".join(names.level(path.removesuffix(".kind"), own[path]) for path in paths)

    return say(plan.groups[0]), say(plan.groups[1])

"""Call a user's training function once more for some trials of a run that it made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gradlab.comparing.calls import Calls
from gradlab.comparing.planning import Arms, Train, plan_comparison, split_arguments
from gradlab.errors import InvalidInput
from gradlab.report.result import Result
from gradlab.runs.monitor import Monitor
from gradlab.trials.result import TrialResult
from gradlab.trials.trial import TrialLabel


def calls_again(train: Train, arms: Arms | None = None) -> Callable[[Result], Callable[..., Iterable[TrialResult]]]:
    """How to call `train` again for trials of a result; `arms` as they were given, or else as the run kept them."""

    def prepared(result: Result) -> Callable[[Sequence[TrialLabel]], Iterable[TrialResult]]:
        study = result.study
        if not result.measured.plan.own_code:
            raise InvalidInput("this run trained networks of the lab; there is no function to call again")
        given = arms if arms is not None and set(arms) == set(study.arms or ()) else _kept_arms(train, study.arms or {})
        plan = plan_comparison(train, given, study.trial_seeds)
        contents = {arm.group.name: arm.content for arm in plan.groups}
        for planned in result.measured.plan.groups:
            if contents[planned.group.name] != planned.content:
                raise InvalidInput(
                    f"{plan.study.code.function} is not the code that the run was made with, or the settings of "
                    f"{planned.group.name} are others"
                )
        calls = Calls(plan, train, split_arguments(given))
        ids = {(trial.group, trial.seed): trial.id for trial in plan.trials}
        for planned in result.measured.plan.groups:
            if ids[planned.group.name, study.trial_seeds[0]] not in {t.id for t in result.measured.plan.trials}:
                raise InvalidInput("versions of NumPy or PyTorch are others than those of the run: bits may differ")
        return lambda trials: (
            found for results in calls.start([trial.id for trial in trials], Monitor()) for found in results
        )

    return prepared


def _kept_arms(train: Train, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Arms from what the run kept: keywords, or one argument that was kept as `arm`."""
    return {name: kept if _takes(train, kept) else kept.get("arm", kept) for name, kept in settings.items()}


def _takes(train: Train, keywords: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(train).bind(**keywords, seed=0)
    except TypeError:
        return False
    except ValueError:
        return True
    return True

"""Trials into bundles: enough work in each that handing it over costs nothing, few enough that no core waits long."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence

from gradlab.plans.plan import Plan, fitting_workers
from gradlab.runs.executors.base import Executor
from gradlab.runs.monitor import Monitor
from gradlab.runs.worker import Bundle
from gradlab.trials.result import TrialResult
from gradlab.trials.trial import Trial

SECONDS = 0.1
"""Work in a bundle; a longer trial is a bundle by itself."""
SHARES = 8
"""At least so many bundles per worker, so that the last ones end together."""
SHORT, MANY = 0.05, 10.0
"""Seconds of a short trial, and of all of them together on a worker: then the interpreter's lock is in the way."""


def named_executor(name: str, plan: Plan, workers: int | None = None) -> Executor:
    """The executor of this name, with as many workers as asked for, or as cores and memory allow."""
    part = plan.catalog.get("executor", name)
    sized = {"workers": fitting_workers(plan, workers)} if "workers" in part.parameter_names() else {}
    return part.parse(sized)  # type: ignore[return-value]


def default_executor(plan: Plan, trials: int, wanted: int | None = None) -> str:
    """The name of the executor for so many trials of a plan: `processes` for thousands of short ones, else `pool`.

    Processes take a second to start and need a main module that can be imported again: `run` uses them only if asked.
    """
    workers = fitting_workers(plan, wanted)
    each = sum(planned.rough_seconds for planned in plan.groups) / len(plan.groups)
    return "processes" if workers > 1 and each < SHORT and each * trials / workers > MANY else "pool"


def execute(plan: Plan, executor: Executor, ids: Collection[str], monitor: Monitor) -> Generator[list[TrialResult]]:
    """The trials of a plan that have these ids, run by an executor."""
    wanted = set(ids)
    todo = list({trial.id: trial for trial in plan.trials if trial.id in wanted}.values())
    return executor.run(bundle_trials(plan, todo, executor.width(len(todo))), monitor)


def bundle_trials(plan: Plan, trials: Sequence[Trial], workers: int) -> list[Bundle]:
    """All trials in their order. The speed is a guess: it decides nothing but the size of the bundles."""
    seconds = {planned.group.name: planned.rough_seconds for planned in plan.groups}
    most = max(1, len(trials) // (SHARES * workers))
    bundles: list[Bundle] = []
    bundle: list[Trial] = []
    load = 0.0
    for trial in trials:
        if bundle and (load + seconds[trial.group] > SECONDS or len(bundle) == most):
            bundles.append(tuple(bundle))
            bundle, load = [], 0.0
        bundle.append(trial)
        load += seconds[trial.group]
    return [*bundles, tuple(bundle)] if bundle else bundles

"""Group trials into bundles: large enough to make the overhead negligible, small enough to keep all cores busy."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence

from gradlab.plans.plan import Plan, limit_workers
from gradlab.runs.executors.base import Executor
from gradlab.runs.monitor import Monitor
from gradlab.runs.worker import Bundle
from gradlab.trials.result import TrialResult
from gradlab.trials.trial import Trial

SECONDS = 0.1
"""Seconds of work in a bundle; a longer trial is a bundle by itself."""
SHARES = 8
"""Minimum number of bundles per worker, so that the last ones end at about the same time."""
SHORT, MANY = 0.05, 10.0
"""Seconds of a short trial, and of all trials on one worker: beyond both, the interpreter lock is the bottleneck."""


def named_executor(name: str, plan: Plan, workers: int | None = None) -> Executor:
    """Return the executor of this name, with as many workers as requested, or as cores and memory allow."""
    part = plan.catalog.get("executor", name)
    sized = {"workers": limit_workers(plan, workers)} if "workers" in part.parameter_names() else {}
    return part.parse(sized)  # type: ignore[return-value]


def default_executor(plan: Plan, trials: int, wanted: int | None = None) -> str:
    """Return the executor's name for `trials` trials of a plan: `processes` for thousands of short ones, else `pool`.

    Processes take a second to start and need an importable main module, so `run` uses them only on request.
    """
    workers = limit_workers(plan, wanted)
    each = sum(planned.rough_seconds for planned in plan.groups) / len(plan.groups)
    return "processes" if workers > 1 and each < SHORT and each * trials / workers > MANY else "pool"


def execute(plan: Plan, executor: Executor, ids: Collection[str], monitor: Monitor) -> Generator[list[TrialResult]]:
    """Run the trials of a plan that have these ids with an executor."""
    assert not plan.pending, "the values of the arms are not chosen yet"
    wanted = set(ids)
    todo = list({trial.id: trial for trial in plan.trials if trial.id in wanted}.values())
    return executor.run(bundle_trials(plan, todo, executor.width(len(todo))), monitor)


def bundle_trials(plan: Plan, trials: Sequence[Trial], workers: int) -> list[Bundle]:
    """Group all trials in their order. The estimated time affects only the size of the bundles."""
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

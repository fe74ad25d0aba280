"""Trials into bundles: enough work in each that handing it over costs nothing, few enough that no core waits long."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence

from gradlab.execute.base import Bundle, Executor, TrialResult
from gradlab.execute.watch import Watch
from gradlab.plan.plan import Plan
from gradlab.trial.trial import Trial

SECONDS = 0.1
"""Work in a bundle; a longer trial is a bundle by itself."""
SHARES = 8
"""At least so many bundles per worker, so that the last ones end together."""
SHORT, MANY = 0.05, 10.0
"""Seconds of a short trial, and of all of them together on a worker: then the interpreter's lock is in the way."""


def suited(plan: Plan, trials: int, workers: int) -> str:
    """The executor for so many trials of a plan: `processes` for many short ones, else `pool`."""
    each = sum(planned.rough_seconds for planned in plan.groups) / len(plan.groups)
    return "processes" if workers > 1 and each < SHORT and each * trials / workers > MANY else "pool"


def executed(plan: Plan, executor: Executor, ids: Collection[str], watch: Watch) -> Generator[list[TrialResult]]:
    """The trials of a plan that have these ids, run by an executor."""
    wanted = set(ids)
    todo = list({trial.id: trial for trial in plan.trials if trial.id in wanted}.values())
    return executor.run(bundled(plan, todo, executor.width(len(todo))), watch)


def bundled(plan: Plan, trials: Sequence[Trial], workers: int) -> list[Bundle]:
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

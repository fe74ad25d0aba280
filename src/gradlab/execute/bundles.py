"""Trials into bundles: enough work in each that handing it over costs nothing, few enough that no core waits long."""

from __future__ import annotations

from collections.abc import Sequence

from gradlab.execute.base import Bundle
from gradlab.plan.cost import Speed
from gradlab.plan.plan import Plan
from gradlab.trial.trial import Trial

SECONDS = 0.1
"""Work in a bundle; a longer trial is a bundle by itself."""
SHARES = 8
"""At least so many bundles per worker, so that the last ones end together."""
ROUGHLY = Speed(2e10, 2e-6)
"""Of any machine: good enough to divide work, not to promise a time."""


SHORT, MANY = 0.05, 10.0
"""Seconds of a short trial, and of all of them together on a worker: then the interpreter's lock is in the way."""


def suited(plan: Plan, trials: int, workers: int) -> str:
    """The executor for so many trials of a plan: `processes` for many short ones, else `pool`."""
    each = sum(ROUGHLY.seconds(planned.cost, planned.engine) for planned in plan.groups) / len(plan.groups)
    return "processes" if workers > 1 and each < SHORT and each * trials / workers > MANY else "pool"


def bundled(plan: Plan, trials: Sequence[Trial], workers: int) -> list[Bundle]:
    """All trials in their order. The speed is a guess: it decides nothing but the size of the bundles."""
    seconds = {planned.group.name: ROUGHLY.seconds(planned.cost, planned.engine) for planned in plan.groups}
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

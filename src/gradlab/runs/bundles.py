"""Group trials into bundles: large enough to make the overhead negligible, small enough to keep all cores busy."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from gradlab.errors import InvalidInput, offer, shortened
from gradlab.plans.plan import Plan, limit_workers
from gradlab.runs.executors.base import Executor
from gradlab.runs.monitor import Monitor
from gradlab.runs.worker import Bundle
from gradlab.trials.result import TrialResult
from gradlab.trials.trial import Trial

SHARES = 8
"""Minimum number of bundles per worker, so that the last ones end at about the same time."""
SHORT, MANY = 0.05, 10.0
"""Seconds of a short trial, and of all trials on one worker: beyond both, the interpreter lock is the bottleneck."""


def named_executor(
    name: str,
    plan: Plan,
    workers: int | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    mixed: bool = False,
) -> Executor:
    """Return the executor of this name, with as many workers as requested, or as cores and memory allow.

    `settings` are its own parameters, such as an address; `mixed` accepts machines where trials may give other bits.
    """
    part = plan.catalog.get("executor", name)
    assert issubclass(part, Executor)
    known: dict[str, Any] = {
        "workers": limit_workers(plan, workers) if part.local else workers,
        "memory": plan.bytes,
        "mixed": mixed,
    }
    given = dict(settings or {})
    for field in given:
        if not part.accepts(field):
            accepted = [word for word in part.parameter_names() if word not in ("memory", "mixed")]
            raise InvalidInput(f"the executor {name} has no setting {field!r}{offer(field, accepted)}")
    try:
        return part.parse({**{key: value for key, value in known.items() if part.accepts(key)}, **given})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidInput(
            f"the executor {name}: {where}: {first['msg']} (it is {shortened(first['input'])})"
        ) from None


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
    bundles = bundle_trials(plan, todo, executor.width(len(todo)), executor.bundle_seconds)
    return executor.run(bundles, monitor)


def bundle_trials(
    plan: Plan, trials: Sequence[Trial], workers: int, limit: float = Executor.bundle_seconds
) -> list[Bundle]:
    """Group all trials in their order. The estimated time affects only the size of the bundles."""
    seconds = {planned.group.name: planned.rough_seconds for planned in plan.groups}
    most = max(1, len(trials) // (SHARES * workers))
    bundles: list[Bundle] = []
    bundle: list[Trial] = []
    load = 0.0
    for trial in trials:
        if bundle and (load + seconds[trial.group] > limit or len(bundle) == most):
            bundles.append(tuple(bundle))
            bundle, load = [], 0.0
        bundle.append(trial)
        load += seconds[trial.group]
    return [*bundles, tuple(bundle)] if bundle else bundles

"""Group trials into bundles: large enough to make the overhead negligible, small enough to keep all cores busy.

And what follows from their size: the executor for a plan, and a model of how long a run takes.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gradlab.errors import InvalidInput, offer, shortened
from gradlab.plans.plan import Plan, limit_workers
from gradlab.runs.executors.base import SECONDS_PER_CORE, SHARES, Costs, Executor
from gradlab.runs.monitor import Monitor
from gradlab.runs.worker import Bundle
from gradlab.trials.outcome import TrialResult
from gradlab.trials.trial import Trial

WORKER_BYTES = 330 * 2**20
"""Memory of a worker process before its first trial: Python, NumPy, SciPy, Numba and the loaded kernels."""
BUSY = 0.95
"""Share of its time from which on the coordinator is the limit."""
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
    plan: Plan, trials: Sequence[Trial], workers: int, seconds: float = Executor.bundle_seconds
) -> list[Bundle]:
    """Group all trials in their order. The estimated time affects only the size of the bundles."""
    cost = {planned.group.name: planned.rough_seconds for planned in plan.groups}
    most, limit = bundle_limits(len(trials), workers, seconds)
    bundles: list[Bundle] = []
    bundle: list[Trial] = []
    load = 0.0
    for trial in trials:
        if bundle and (load + cost[trial.group] > limit or len(bundle) == most):
            bundles.append(tuple(bundle))
            bundle, load = [], 0.0
        bundle.append(trial)
        load += cost[trial.group]
    return [*bundles, tuple(bundle)] if bundle else bundles


def bundle_limits(trials: int, workers: int, seconds: float) -> tuple[int, float]:
    """Return how many trials a bundle may hold, and how many seconds of work, if `seconds` are wanted."""
    return max(1, trials // (SHARES * workers)), max(seconds, workers * SECONDS_PER_CORE)


@dataclass(frozen=True)
class Forecast:
    """What the model expects of a run. A model, not a promise."""

    seconds: float
    bundles: int
    trials_per_bundle: int
    coordinator: float
    """Share of the time in which the coordinator is busy, from 0 to 1."""
    efficiency: float
    """Time of the trials themselves over the time of all cores, from 0 to 1."""
    start: float = 0.0

    @property
    def limit(self) -> str:
        """What keeps the run from being faster: `coordinator`, `start-up` or `cores`."""
        if self.coordinator >= BUSY:
            return "coordinator"
        return "start-up" if self.start > self.seconds / 2 else "cores"


def forecast(
    trials: int, seconds: float, cores: int, costs: Costs, bundle_seconds: float, shared: int | None = None
) -> Forecast:
    """Estimate `trials` trials of `seconds` each on so many cores, in bundles of about `bundle_seconds`.

    After the start-up, whatever takes longest decides: a core that runs its share of the bundles one after the other,
    the coordinator, or (on a machine whose `shared` cores have to do both) all work together. The costs are rough, from
    single measurements on one machine (benchmarks/RESULTS.md says which); `benchmarks/executors.py` compares the
    estimate with a run. A network adds to the trip, not to the coordinator.
    """
    if not trials:
        return Forecast(0.0, 0, 0, 0.0, 1.0)
    most, limit = bundle_limits(trials, cores, bundle_seconds)
    size = max(1, min(most, int(limit / max(seconds, 1e-9))))
    bundles = -(-trials // size)
    core = -(-bundles // cores) * (costs.bundle / 2 + costs.trip + size * seconds)
    coordinator = bundles * costs.bundle + trials * (costs.trial + costs.locked)
    together = (trials * seconds + coordinator) / shared if shared is not None else 0.0
    total = costs.start + max(core, coordinator, together)
    return Forecast(total, bundles, size, coordinator / total, trials * seconds / (total * cores), costs.start)

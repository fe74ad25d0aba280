"""The executor interface (bundles of trials in, results out), how bundles are made, and how long a run takes.

A worker is one call of `gradlab.runs.worker.run_bundle`. An executor decides only where and when these calls happen;
it cannot change the bits of a result. An executor for a cluster is one more file that sends `run_bundle` elsewhere.
"""

from __future__ import annotations

import os
import signal
from abc import abstractmethod
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

from pydantic import ValidationError

from gradlab.errors import InvalidInput, offer, shortened
from gradlab.parts import Part
from gradlab.plans.plan import Plan, limit_workers
from gradlab.runs.worker import Bundle, Monitor
from gradlab.trials.outcome import TrialResult
from gradlab.trials.trial import Trial

SHARES = 8
"""Minimum number of bundles per worker, so that the last ones end at about the same time."""
SECONDS_PER_CORE = 4e-3
"""A cluster of many cores gets longer bundles, so that the coordinator, which is one process, is asked less often."""
WORKER_BYTES = 330 * 2**20
"""Memory of a worker process before its first trial: Python, NumPy, SciPy, Numba and the loaded kernels."""
BUSY = 0.95
"""Share of its time from which on the coordinator is the limit."""
SHORT, MANY = 0.05, 10.0
"""Seconds of a short trial, and of all trials on one worker: beyond both, the interpreter lock is the bottleneck."""


@dataclass(frozen=True)
class Costs:
    """What an executor costs, in seconds; see benchmarks/RESULTS.md."""

    start: float = 0.0
    """Until the first worker can begin: processes started, packages imported, kernels loaded."""
    trip: float = 0.0
    """A worker's wait between two bundles."""
    bundle: float = 0.0
    """Of the coordinator, for a bundle: hand it out, take its answer."""
    trial: float = 3.5e-4
    """Of the coordinator, for a trial: unpack it, add it to the tables, write the chunk and its line of the ledger."""
    locked: float = 0.0
    """Of a trial, in the interpreter that threads share with the coordinator."""


class Executor(Part):
    """Runs bundles of trials."""

    part: ClassVar[str] = "executor"
    isolated: ClassVar[bool] = False
    """Whether trials run in other processes, so that a trial that kills its process does not end the others."""

    bundle_seconds: ClassVar[float] = 0.1
    """Seconds of work in a bundle; a longer trial is a bundle by itself."""
    costs: ClassVar[Costs] = Costs()
    """What it costs, for estimates of the time of a run."""
    local: ClassVar[bool] = True
    """Whether trials run on this machine, so that its cores and memory limit their number."""

    @abstractmethod
    def run(self, bundles: Sequence[Bundle], monitor: Monitor) -> Generator[list[TrialResult]]:
        """Run every trial once and yield results as they finish, in any order.

        `bundles` are the trials, grouped into calls of about equal cost. Pass `monitor` on to `run_bundle`: it collects
        progress, and raises `Stopped` inside a trial when the run is stopping. Once `monitor.stopping` is true, start
        nothing further and yield what has finished.
        """

    def run_trials(self, plan: Plan, ids: Collection[str], monitor: Monitor) -> Generator[list[TrialResult]]:
        """Run the trials of a plan that have these ids, in bundles."""
        assert not plan.pending, "the values of the arms are not chosen yet"
        wanted = set(ids)
        todo = list({trial.id: trial for trial in plan.trials if trial.id in wanted}.values())
        return self.run(bundle_trials(plan, todo, self.width(len(todo)), self.bundle_seconds), monitor)

    def check(self) -> None:
        """Raise an `InvalidInput` if something is missing that it needs: called before anything is run."""

    def shares_machine(self) -> bool:
        """Whether workers run on the coordinator's own machine, and so compete with it for its cores."""
        return self.local

    def cores_per_machine(self) -> int:
        """Return how many trials one machine runs at the same time, as far as it is known before the run."""
        return self.width(2**31)

    def width(self, trials: int) -> int:
        """Return how many of `trials` trials run at the same time."""
        return 1


INTERRUPTS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""SIGHUP: the terminal is closed (a dropped connection); finished trials are kept."""


@contextmanager
def signals_blocked(*numbers: int) -> Iterator[None]:
    """Block these signals. Processes that are started inside inherit it: the coordinator decides what Ctrl-C means."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def workers_for(trials: int, wanted: int | None) -> int:
    """Return the number of workers: as many as requested, or as there are cores, but no more than trials."""
    return max(1, min(wanted or os.cpu_count() or 1, trials))


def require_extra(module: str, extra: str, purpose: str) -> Any:
    """Return the imported module, or raise an error that names the command that installs it."""
    if find_spec(module) is None:
        raise InvalidInput(
            f"{purpose} needs the package {module!r}, which is not installed; install it with: "
            f"pip install 'gradlab[{extra}]'"
        )
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidInput(
            f"{purpose} needs the package {module!r}, which is installed but cannot be imported ({error}); reinstall "
            f"it with: pip install --force-reinstall 'gradlab[{extra}]'"
        ) from None


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
    seconds = sum(planned.rough_seconds for planned in plan.groups) / len(plan.groups)
    return "processes" if workers > 1 and seconds < SHORT and seconds * trials / workers > MANY else "pool"


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

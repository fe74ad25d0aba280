"""Bundles as tasks of Ray, on a running cluster or on one that is started here and ends with the run.

driver (coordinator): hands out bundles, takes answers, commits          one `Board` actor: live losses, "stop"
worker processes of Ray, on any machine: `RemoteWorker.run`              object store: the cargo and the data, once

Ray schedules and restarts; a bundle whose worker or machine died is handed out again here, so that a trial that kills
its worker is found and recorded as failed. A trial that ran twice has one result: only the coordinator commits.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Annotated, Any, ClassVar

from pydantic import Field

from gradlab.errors import EnvironmentFault, described
from gradlab.notices import say, say_once
from gradlab.runs.executors.base import Executor, workers_for
from gradlab.runs.executors.ray_connection import ADDRESS, connected, import_ray
from gradlab.runs.executors.ray_worker import Board, run_in_ray
from gradlab.runs.freight import unload_results
from gradlab.runs.monitor import Live, Monitor
from gradlab.runs.packing import Packer
from gradlab.runs.parcels import Answer, Ticket, pack
from gradlab.runs.scaling import Costs
from gradlab.runs.worker import Bundle
from gradlab.trials.digest import digest
from gradlab.trials.result import TrialResult
from gradlab.trials.trial import Trial

POLL_SECONDS, LOOK_SECONDS = 0.2, 2.0
"""Seconds between looks at the answers while none comes, and at the machines and the board."""
AHEAD = 2
"""Bundles handed out per core: one in training and one waiting."""
MOST_DEATHS = 3
"""Worker processes that a trial may end before it is recorded as failed."""
MOST_LOSSES = 20
"""Bundles in a row whose worker could not fetch what it shares with the others."""
_Bundle = tuple[tuple[int, Ticket], ...]


class Ray(Executor):
    """Tasks of Ray: a running cluster (`address`), or one of this machine's cores that ends with the run."""

    name = "ray"
    isolated = True
    bundle_seconds: ClassVar[float] = 0.5
    costs: ClassVar[Costs] = Costs(start=7.0, trip=2e-3, bundle=2e-3, trial=5e-4)
    local: ClassVar[bool] = False
    address: str = ""
    """HOST:PORT, ray://HOST:PORT or `auto`; empty: the cluster of the surrounding Ray job, or else a new local one."""
    workers: Annotated[int, Field(ge=1)] | None = None
    """Trials at a time; default: all cores of the cluster."""
    memory: Annotated[int, Field(ge=0)] = 0
    """Bytes that a trial needs; Ray starts no more trials on a machine than fit."""
    mixed: bool = False
    """Accept workers on which the same trial may give other bits."""

    def check(self) -> None:
        """Ray has to be installed."""
        import_ray()

    def shares_machine(self) -> bool:
        """A cluster that is started for the run is this machine."""
        return not (self.address or os.environ.get(ADDRESS))

    def cores_per_machine(self) -> int:
        """Machines of a cluster are taken to be like this one."""
        return workers_for(os.cpu_count() or 1, self.workers)

    def width(self, trials: int) -> int:
        """As many as requested, or as this machine has cores; the cluster's own number is known once it is reached."""
        return workers_for(trials, self.workers)

    def run(self, bundles: Sequence[Bundle], monitor: Monitor) -> Generator[list[TrialResult]]:
        """Run all bundles on the cluster. Once the run is stopping, workers end at their next tick."""
        if monitor.stopping or not bundles:
            return
        ray = import_ray()
        with connected(ray, self.address, self.workers):
            dispatch = _Dispatch(ray, self, bundles, monitor)
            try:
                yield from dispatch.run()
            finally:
                dispatch.end()


class _Dispatch:
    """One run on a cluster: what is handed out, and to whom."""

    def __init__(self, ray: Any, how: Ray, bundles: Sequence[Bundle], monitor: Monitor) -> None:
        self._ray, self._how, self._monitor = ray, how, monitor
        self._trials: dict[str, Trial] = {trial.id: trial for bundle in bundles for trial in bundle}
        self._packed, tickets = pack(bundles, mixed=how.mixed)
        self._packer: Packer[Ticket] = Packer(
            [[(ticket[0], ticket) for ticket in own] for own in tickets], how.bundle_seconds
        )
        self._place()
        here = ray.get_runtime_context().get_node_id()
        pinned = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=True)
        self._board = ray.remote(Board).options(num_cpus=0, scheduling_strategy=pinned, max_restarts=-1).remote()
        self._task = ray.remote(run_in_ray)
        self._out: dict[Any, tuple[_Bundle, int]] = {}
        """Bundles in the cluster, each with the number of machines that were dead when it was handed out."""
        self._deaths: dict[str, int] = {}
        self._losses = 0
        self._refused: dict[str, str] = {}
        self._nodes: list[dict[str, Any]] = []
        self._looked = 0.0
        self._asked: Any = None
        """The answer of the board that is on its way."""

    def _place(self) -> None:
        """Put configurations and data into the object store: once, and anew if they get lost."""
        self._cargo = self._ray.put(self._packed)
        self._data = {source: self._ray.put(arrays) for source, arrays in self._packed.read_data().items()}

    def run(self) -> Generator[list[TrialResult]]:
        told = False
        while self._out or (len(self._packer) and not self._monitor.stopping):
            self._look()
            if self._monitor.stopping and not told:
                told = True
                self._board.stop.remote()
            while not self._monitor.stopping and len(self._packer) and len(self._out) < self._room():
                self._submit(self._packer.take(self._cores()))
            if not self._out:
                say_once("the Ray cluster has no core for trials yet; waiting for a machine to join")
                sleep(POLL_SECONDS)
                continue
            ready, _ = self._ray.wait(list(self._out), num_returns=1, timeout=POLL_SECONDS)
            if ready and len(self._out) > 1:  # take what else is there without waiting
                ready, _ = self._ray.wait(list(self._out), num_returns=len(self._out), timeout=0)
            for reference in ready:
                if results := self._take(reference, *self._out.pop(reference)):
                    yield results

    def end(self) -> None:
        """Leave nothing behind in a cluster that goes on: no task, no board."""
        self._monitor.replace(())
        with suppress(Exception):  # the cluster may be gone
            for reference in self._out:
                self._ray.cancel(reference, force=True)
            self._ray.kill(self._board)

    def _cores(self) -> int:
        allowed = [node for node in self._nodes if node["Alive"] and node["NodeID"] not in self._refused]
        return int(sum(node["Resources"].get("CPU", 0) for node in allowed))

    def _room(self) -> int:
        """How many bundles may be handed out at the same time; with fewer workers than cores, none waits over there."""
        cores = self._cores()
        return AHEAD * cores if (self._how.workers or cores) >= cores else self._how.workers or 1

    def _submit(self, bundle: _Bundle) -> None:
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": 0, "memory": self._how.memory or None}
        if self._refused:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(self._refused))})"}
        tickets = tuple(ticket for _, ticket in bundle)
        # references inside a list are not fetched for every task: a worker process gets them once
        shared = [self._cargo, self._data]
        self._out[self._task.options(**options).remote(shared, self._board, tickets)] = bundle, self._dead()

    def _dead(self) -> int:
        return sum(not node["Alive"] for node in self._nodes)

    def _take(self, reference: Any, bundle: _Bundle, dead: int) -> list[TrialResult]:
        """What came back: results, a refusal, or the news that the worker has died."""
        errors = self._ray.exceptions
        try:
            answer, node = self._ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, errors.RayError):
                return self._lost(bundle, error)  # otherwise a defect, or Gradlab is missing over there
            raise EnvironmentFault(f"a worker of the Ray cluster failed: {_cause(error)}") from error
        except errors.RuntimeEnvSetupError as error:
            raise EnvironmentFault(f"Ray cannot start a worker: {described(error)}") from None
        except errors.RayError as error:
            return self._died(bundle, dead, error)
        self._losses = 0
        if answer.refused is not None:
            self._refuse(node, answer)
            self._packer.put_back(bundle)
            return []
        if answer.other is not None:
            self._monitor.meet(answer.other)
        by_id = {ticket[2]: group for group, ticket in bundle}
        results = unload_results(answer.results, self._trials)
        for result in results:
            self._trials.pop(result.trial.id)  # a trial that ran twice has one result
            self._packer.learn(by_id[result.trial.id], result.seconds)
        done = set(answer.results.ids)
        if len(done) < len(bundle) and not self._monitor.stopping:
            self._packer.put_back(item for item in bundle if item[1][2] not in done)
        return results

    def _lost(self, bundle: _Bundle, error: BaseException) -> list[TrialResult]:
        """Hand a bundle out again whose worker did not get at the object store."""
        self._losses += 1
        if self._losses > MOST_LOSSES:
            raise EnvironmentFault(f"workers of the Ray cluster cannot fetch the study: {_cause(error)}") from error
        sleep(POLL_SECONDS)
        self._place()
        self._packer.put_back(bundle)
        return []

    def _died(self, bundle: _Bundle, dead: int, error: BaseException) -> list[TrialResult]:
        """Hand a bundle out again, in halves; a trial that alone ends its worker again and again has failed."""
        if not isinstance(error, self._ray.exceptions.OutOfMemoryError):
            sleep(POLL_SECONDS)
            self._look(now=True)
            if self._dead() > dead or _lost_machine(error):
                self._packer.put_back(bundle)  # a machine died: no trial's fault
                return []
        alone = bundle[0][1][2] if len(bundle) == 1 else None
        if alone is None:
            self._packer.put_back(bundle, pieces=2)
            return []
        self._deaths[alone] = self._deaths.get(alone, 0) + 1
        if self._deaths[alone] < MOST_DEATHS:
            self._packer.put_back(bundle)
            return []
        trial = self._trials.pop(alone)
        text = f"its worker process died {MOST_DEATHS} times ({_cause(error)})"
        return [TrialResult(trial, None, text, 0.0, digest(trial.id, None, text))]

    def _refuse(self, node: str, answer: Answer) -> None:
        assert answer.refused is not None
        if node not in self._refused:
            self._refused[node] = answer.refused
            say(answer.refused)
        self._look(now=True)
        if not self._cores():
            raise EnvironmentFault(f"no machine in the cluster matches the one that started the run: {answer.refused}")

    def _look(self, now: bool = False) -> None:
        """Look at the machines, and show what is in training, every few seconds."""
        if not now and monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = monotonic()
        self._nodes = self._ray.nodes()
        largest = max((node["Resources"].get("memory", 0) for node in self._nodes if node["Alive"]), default=0)
        if largest and self._how.memory > largest:
            raise EnvironmentFault(
                f"a trial needs about {self._how.memory / 2**30:,.1f} GiB, but the largest machine in the Ray cluster "
                f"offers only {largest / 2**30:,.1f} GiB"
            )
        asked, self._asked = self._asked, None
        if asked is not None and not self._ray.wait([asked], timeout=0)[0]:
            self._asked = asked  # the board has just been started, or is busy: nobody waits for it
            return
        self._asked = self._board.read.remote()
        try:
            found = self._ray.get(asked) if asked is not None else ()
        except self._ray.exceptions.RayError:
            return
        start = monotonic()
        self._monitor.replace(
            Live(self._trials[identity], steps, loss, start - seconds)
            for identity, steps, loss, seconds in found
            if identity in self._trials
        )


def _cause(error: BaseException) -> str:
    """The last line that says something: Ray's errors end with the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _lost_machine(error: BaseException) -> bool:
    return type(error).__name__ in ("NodeDiedError", "LocalRayletDiedError", "OwnerDiedError", "ObjectLostError")

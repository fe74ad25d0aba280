"""Bundles as tasks of Ray, on a running cluster or on one that is started here and ends with the run.

driver (coordinator): hands out batches, takes answers, commits          one `Board` actor: live losses, "stop"
worker processes of Ray, on any machine: `run_in_ray`                    object store: shared inputs and data, once

Ray schedules and restarts; a batch whose worker or machine died is handed out again here, so that a trial that kills
its worker is found and recorded as failed.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from time import monotonic, sleep
from typing import Annotated, Any, ClassVar
from unittest.mock import patch

from pydantic import Field

from gradlab.errors import EnvironmentFault, described
from gradlab.notices import say, say_once
from gradlab.runs.executors.base import (
    INTERRUPTS,
    SECONDS_PER_CORE,
    SHARES,
    Costs,
    Executor,
    require_extra,
    workers_for,
)
from gradlab.runs.remote import MOST_DEATHS, Answer, Dispatch, Progress, RemoteWorker, TrialBatch
from gradlab.runs.worker import Bundle, Monitor
from gradlab.trials.outcome import TrialResult

POLL_SECONDS, LOOK_SECONDS = 0.2, 2.0
"""Seconds between looks at the answers while none comes, and at the machines and the board."""
AHEAD = 2
"""Batches handed out per core: one in training and one waiting."""
MOST_LOSSES = 20
"""Batches in a row whose worker could not fetch what it shares with the others."""
REACH_SECONDS = 10.0
"""How long a machine may take to answer; Ray itself would try for minutes."""
REPORT_SECONDS, MOST_REPORTS = 2.0, 100
"""Seconds between a worker's reports, and reports per second of all workers: in a large cluster each reports less."""
FORGET_REPORTS = 10
"""A worker that has missed so many reports has died."""
ADDRESS = "RAY_ADDRESS"
"""Set by Ray inside a job: the cluster that the job runs on."""
AUTH_MODE = "RAY_AUTH_MODE"


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
        _import_ray()

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
        ray = _import_ray()
        with _connected(ray, self.address, self.workers):
            dispatch = _RayDispatch(ray, self, bundles, monitor)
            try:
                yield from dispatch.run()
            finally:
                dispatch.end()


class _RayDispatch(Dispatch):
    """One run on a cluster of Ray."""

    def __init__(self, ray: Any, executor: Ray, bundles: Sequence[Bundle], monitor: Monitor) -> None:
        super().__init__(bundles, monitor, mixed=executor.mixed)
        self._ray, self._executor = ray, executor
        self._waiting: deque[TrialBatch] = deque(self.batches)
        self._handed_out: dict[Any, tuple[TrialBatch, int]] = {}
        """Batches in the cluster, each with the number of machines that were dead when it was handed out."""
        self._refused: set[str] = set()
        """Machines, by node id."""
        self._losses = 0
        self._nodes: list[dict[str, Any]] = []
        self._looked = 0.0
        self._store_inputs()
        here = ray.get_runtime_context().get_node_id()
        pinned = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=True)
        self._board = ray.remote(Board).options(num_cpus=0, scheduling_strategy=pinned, max_restarts=-1).remote()
        self._reading: Any = None
        """What the board will answer; nobody waits for it."""
        self._task = ray.remote(run_in_ray)

    def _store_inputs(self) -> None:
        """Put configurations and data into the object store: once, and anew if they get lost."""
        data = {source: self._ray.put(arrays) for source, arrays in self.inputs.read_data().items()}
        # references inside a list are not fetched for every task: a worker process gets them once
        self._stored = [self._ray.put(self.inputs), data]

    def run(self) -> Generator[list[TrialResult]]:
        told = False
        while self._handed_out or (self._waiting and not self.monitor.stopping):
            self._look()
            if self.monitor.stopping and not told:
                told = True
                self._board.stop.remote()
            while not self.monitor.stopping and self._waiting and len(self._handed_out) < self._room():
                self._submit(self._next_batch())
            if not self._handed_out:
                say_once("the Ray cluster has no core for trials yet; waiting for a machine to join")
                sleep(POLL_SECONDS)
                continue
            ready, _ = self._ray.wait(list(self._handed_out), num_returns=1, timeout=POLL_SECONDS)
            if ready and len(self._handed_out) > 1:  # take what else is there without waiting
                ready, _ = self._ray.wait(list(self._handed_out), num_returns=len(self._handed_out), timeout=0)
            for reference in ready:
                if results := self._take(reference, *self._handed_out.pop(reference)):
                    yield results

    def end(self) -> None:
        """Leave nothing behind in a cluster that goes on: no task, no board."""
        self.monitor.replace(())
        with suppress(Exception):  # the cluster may be gone
            for reference in self._handed_out:
                self._ray.cancel(reference, force=True)
            self._ray.kill(self._board)

    def hand_out(self, batch: TrialBatch) -> None:
        """Before all others: what ran once already is what the end of the run would wait for."""
        self._waiting.appendleft(batch)

    def _next_batch(self) -> TrialBatch:
        """Take what waits; in a large cluster several batches at once, so that the coordinator is asked less often."""
        cores = max(1, self._cores())
        wanted = int(cores * SECONDS_PER_CORE / self._executor.bundle_seconds)
        count = max(1, min(wanted, len(self._waiting) // (SHARES * cores)))
        return tuple(key for _ in range(count) for key in self._waiting.popleft())

    def _submit(self, batch: TrialBatch) -> None:
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": 0, "memory": self._executor.memory or None}
        if self._refused:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(self._refused))})"}
        reference = self._task.options(**options).remote(self._stored, self._board, batch)
        self._handed_out[reference] = batch, self._dead()

    def _take(self, reference: Any, batch: TrialBatch, dead: int) -> list[TrialResult]:
        """Take what came back: results, a refusal, or the news that the worker has died."""
        errors = self._ray.exceptions
        try:
            answer, node = self._ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, errors.RayError):
                return self._fetch_again(batch, error)  # otherwise a defect, or Gradlab is missing over there
            raise EnvironmentFault(f"a worker of the Ray cluster failed: {_last_line(error)}") from error
        except errors.RuntimeEnvSetupError as error:
            raise EnvironmentFault(f"Ray cannot start a worker: {described(error)}") from None
        except errors.RayError as error:
            if self._lost_machine(error, dead):
                self.hand_out(batch)  # no trial's fault
                return []
            return self.retry(batch, f"its worker process died {MOST_DEATHS} times ({_last_line(error)})")
        self._losses = 0
        if answer.refusal is not None:
            self._refuse(node, answer.refusal)
        return self.accept(batch, answer)

    def _fetch_again(self, batch: TrialBatch, error: BaseException) -> list[TrialResult]:
        """Hand out again a batch whose worker did not get at the object store."""
        self._losses += 1
        if self._losses > MOST_LOSSES:
            raise EnvironmentFault(f"workers of the Ray cluster cannot fetch the study: {_last_line(error)}") from error
        sleep(POLL_SECONDS)
        self._store_inputs()
        self.hand_out(batch)
        return []

    def _lost_machine(self, error: BaseException, dead: int) -> bool:
        """Whether a worker died because its machine did; Ray learns of the machine a moment after the worker."""
        if isinstance(error, self._ray.exceptions.OutOfMemoryError):
            return False
        sleep(POLL_SECONDS)
        self._look(now=True)
        names = ("NodeDiedError", "LocalRayletDiedError", "OwnerDiedError", "ObjectLostError")
        return self._dead() > dead or type(error).__name__ in names

    def _refuse(self, node: str, refusal: str) -> None:
        if node not in self._refused:
            self._refused.add(node)
            say(refusal)
        self._look(now=True)
        if not self._cores():
            raise EnvironmentFault(f"no machine in the cluster matches the one that started the run: {refusal}")

    def _cores(self) -> int:
        allowed = [node for node in self._nodes if node["Alive"] and node["NodeID"] not in self._refused]
        return int(sum(node["Resources"].get("CPU", 0) for node in allowed))

    def _room(self) -> int:
        """How many batches may be handed out at a time; with fewer workers than cores, none waits over there."""
        cores, workers = self._cores(), self._executor.workers
        return AHEAD * cores if workers is None or workers >= cores else workers

    def _dead(self) -> int:
        return sum(not node["Alive"] for node in self._nodes)

    def _look(self, now: bool = False) -> None:
        """Look at the machines, and show what is in training, every few seconds."""
        if not now and monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = monotonic()
        self._nodes = self._ray.nodes()
        largest = max((node["Resources"].get("memory", 0) for node in self._nodes if node["Alive"]), default=0)
        if largest and self._executor.memory > largest:
            raise EnvironmentFault(
                f"a trial needs about {self._executor.memory / 2**30:,.1f} GiB, but the largest machine in the Ray "
                f"cluster offers only {largest / 2**30:,.1f} GiB"
            )
        if self._reading is None:
            self._reading = self._board.read.remote()
        elif self._ray.wait([self._reading], timeout=0)[0]:
            with suppress(self._ray.exceptions.RayError):  # the board is being restarted
                self.show(self._ray.get(self._reading))
            self._reading = self._board.read.remote()


def _last_line(error: BaseException) -> str:
    """Ray's errors end with their cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


# Inside the cluster: the task of a batch, and the board on which workers show their trials.


class Board:
    """An actor: workers report their trials to it and learn whether to stop."""

    def __init__(self) -> None:
        self._reports: dict[str, tuple[float, tuple[Progress, ...]]] = {}
        self._stopping = False

    def report(self, worker: str, progress: tuple[Progress, ...]) -> float | None:
        """Set what a worker is training; return the seconds until its next report, or None: stop."""
        self._reports[worker] = monotonic(), progress
        return None if self._stopping else self._pause()

    def read(self) -> list[Progress]:
        """Return all trials in training."""
        oldest = monotonic() - FORGET_REPORTS * self._pause()
        self._reports = {worker: report for worker, report in self._reports.items() if report[0] > oldest}
        return [line for _, progress in self._reports.values() for line in progress]

    def stop(self) -> None:
        """Let workers begin nothing further."""
        self._stopping = True

    def _pause(self) -> float:
        return max(REPORT_SECONDS, len(self._reports) / MOST_REPORTS)


_workers: dict[Any, RemoteWorker] = {}
"""Of this process: the worker of the run that it serves, by the reference of the run's inputs."""


def run_in_ray(stored: Sequence[Any], board: Any, batch: TrialBatch) -> tuple[Answer, str]:
    """Run a batch in this process of Ray; return the answer and the id of the machine."""
    import ray

    context = ray.get_runtime_context()
    inputs, data = stored
    if inputs not in _workers:
        for earlier in _workers.values():
            earlier.monitor.stop()
        _workers.clear()
        arrays = {source: ray.get(reference) for source, reference in data.items()}
        _workers[inputs] = worker = RemoteWorker(ray.get(inputs), arrays)
        name = context.get_worker_id()

        def send(progress: tuple[Progress, ...]) -> float | None:
            try:
                pause: float | None = ray.get(board.report.remote(name, progress), timeout=REPORT_SECONDS)
            except Exception:  # the board is slow, being restarted, or gone with its run: train on
                return REPORT_SECONDS
            return pause

        worker.report(send)
    return _workers[inputs].run(batch), context.get_node_id()


# The connection. Ray's dashboard, usage reports and log output are off, and a cluster that is started here listens on
# the loopback address. Clusters may ask for a token. Ray sends the user's own unasked only to a cluster that it finds
# by itself; here also to an address of this machine, and elsewhere if RAY_AUTH_MODE=token says so.


def _import_ray() -> Any:
    """Return the module, with its usage reports off, or say how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # leaves the user's GPUs alone, as Ray advises
    ray = require_extra("ray", "ray", "the executor ray")
    require_extra("ray.util.scheduling_strategies", "ray", "the executor ray")
    return ray


@contextmanager
def _connected(ray: Any, address: str, workers: int | None) -> Iterator[None]:
    """Join the cluster that was named, or the one of the surrounding job; without either start one for this run."""
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get(ADDRESS, "")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    with ExitStack() as stack:
        if AUTH_MODE not in os.environ:
            stack.callback(_forget_token)
        _reach(address)
        try:
            with _signals_kept():
                if address:
                    ray.init(address=address, **quiet)
                else:  # on the loopback address, as Ray does by default on systems other than Linux
                    with patch("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False):
                        ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        except Exception as error:  # Ray raises many kinds, also bare ones
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            if not address:
                raise EnvironmentFault(f"Ray cannot be started here: {reason}") from None
            if AUTH_MODE not in os.environ:
                reason += f"; if it asks for a token, copy the cluster's to ~/.ray/auth_token and set {AUTH_MODE}=token"
            raise EnvironmentFault(f"the Ray cluster at {address} cannot be reached: {reason}") from None
        stack.callback(ray.shutdown)
        yield


def _reach(address: str) -> None:
    """Raise an error if nobody answers there; let Ray show a cluster of this machine the user's token."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit():
        return  # a new cluster, `auto`, or what Ray will refuse
    try:
        socket.create_connection((host, int(port)), REACH_SECONDS).close()
    except OSError as error:
        raise EnvironmentFault(f"the Ray cluster at {address} cannot be reached: {error.strerror or error}") from None
    if not address.startswith("ray://") and _is_here(host):
        with suppress(ImportError):  # a Ray without tokens
            from ray._private.authentication import authentication_token_setup as setup

            with patch.object(setup.logger, "disabled", True):
                setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def _forget_token() -> None:
    """Undo what Ray decided about tokens for this run: the next cluster of this process may be another one."""
    if os.environ.pop(AUTH_MODE, None) is not None:
        with suppress(Exception):
            import_module("ray._raylet").Config.initialize("")


def _is_here(host: str) -> bool:
    """Whether a host is this machine: only its own addresses can be bound."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Put signal handlers back that Ray replaces when it starts: SIGTERM means the same as Ctrl-C here."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)

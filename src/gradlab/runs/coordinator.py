"""Runs the remaining trials of a plan and stores every result: the only process that submits trials and writes.

plan ─▶ what is already stored? ─▶ bundles ─▶ executor ─▶ results ─▶ committed within half a second
"""

from __future__ import annotations

import os
import queue
import threading
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic, time
from typing import Any

from gradlab.plans.plan import Plan
from gradlab.runs.interrupt import on_interrupt
from gradlab.runs.monitor import Monitor
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.store.records import MemoryChunk, Records
from gradlab.runs.store.status import Heartbeat
from gradlab.trials.outcome import TrialResult
from gradlab.trials.trial import TrialLabel

COMMIT_SECONDS = 0.5
"""Maximum delay until a finished trial is on disk; in a long run the pause grows, to keep chunks few."""
MAX_PAUSE = 30.0


Start = Callable[[Collection[str], Monitor], Generator[list[TrialResult]]]


class Tally:
    """The progress of a run: counts, rate, time left, and running trials."""

    def __init__(
        self,
        plan: Plan,
        todo: Sequence[TrialLabel],
        before: Counter[str],
        monitor: Monitor,
        phase: str | None = None,
    ) -> None:
        self.phase = phase
        """Which phase of a run this is; None if it has only one."""
        self.planned = len({trial.id for trial in plan.trials})
        self.counts = Counter(before)
        self.monitor = monitor
        self._steps = {
            found.group.name: max(found.known_cost.steps, 1) if found.known_cost else 1 for found in plan.groups
        }
        self._cost = {found.group.name: found.rough_seconds for found in plan.groups}
        self.todo = len(todo)
        self._todo = sum(self._cost[trial.group] for trial in todo)
        self._done = 0.0
        self._finished = 0
        self._start = monotonic()

    def add(self, results: Sequence[TrialResult]) -> None:
        """Count finished trials."""
        self.counts.update(result.status for result in results)
        self._done += sum(self._cost[result.trial.group] for result in results)
        self._finished += len(results)

    @property
    def failed(self) -> int:
        """Number of trials that ended in an error."""
        return self.counts["failed"]

    @property
    def share(self) -> float:
        """Finished share of the work of this call, by estimated cost, from 0 to 1."""
        running = sum(
            self._cost[live.trial.group] * live.steps / self._steps[live.trial.group] for live in self.monitor.running()
        )
        return min(1.0, (self._done + running) / self._todo) if self._todo else 1.0

    def snapshot(self) -> dict[str, Any]:
        """Return everything as plain data."""
        now, share = monotonic(), self.share
        elapsed = now - self._start
        return {
            "pid": os.getpid(),
            "updated": time(),
            "phase": self.phase,
            "planned": self.planned,
            "done": self.counts["done"] + self.counts["diverged"],
            "diverged": self.counts["diverged"],
            "failed": self.counts["failed"],
            "running": [
                {
                    "trial": live.trial.id,
                    "name": live.trial.name,
                    "steps": live.steps,
                    "of": self._steps[live.trial.group],
                    "loss": live.loss if live.steps else None,
                    "seconds": now - live.started,
                }
                for live in self.monitor.running()
            ],
            "per_second": self._finished / elapsed if self._finished else None,
            "seconds_left": elapsed * (1 - share) / share if share > 0.001 else None,
        }


@dataclass(frozen=True)
class ConductResult:
    """The result of `conduct`."""

    records: Records
    stopped: bool
    """Whether Ctrl-C or SIGTERM stopped it."""
    environments: tuple[Mapping[str, Any], ...] = ()
    """Other environments than the coordinator's own in which trials ran, accepted by `mixed`."""


def conduct(
    plan: Plan,
    start: Start,
    folder: RunFolder | None,
    *,
    phase: str | None = None,
    fail_fast: bool = False,
    on_start: Callable[[Tally], None] | None = None,
    on_results: Callable[[Sequence[TrialResult]], None] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> ConductResult:
    """Run every trial of the plan that has no result yet. With a folder, results are committed as they arrive.

    `start` gets the ids of those trials and yields their results as they finish. `phase` names the phase of a run that
    has several, for whoever watches it.
    """
    before = folder.records if folder is not None else Records(())
    finished = before.finished
    todo = list({trial.id: trial for trial in plan.trials if trial.id not in finished}.values())
    monitor = Monitor()
    tally = Tally(plan, todo, _counts(before, plan, finished), monitor, phase)
    if on_start is not None:
        on_start(tally)
    committer = _Committer(folder, monitor)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        monitor.stop()
        if on_stop is not None:
            on_stop()

    with ExitStack() as stack:
        stack.enter_context(on_interrupt(stop))
        if folder is not None and todo:
            stack.enter_context(Heartbeat(folder.path, tally.snapshot))
        stack.enter_context(committer)
        incoming = start([trial.id for trial in todo], monitor)
        try:
            for results in incoming:
                if folder is not None:
                    folder.keep_environments(monitor.environments)  # before the results that were made there
                committer.add(results)
                tally.add(results)
                if on_results is not None:
                    on_results(results)
                if fail_fast and tally.failed:
                    monitor.stop()
        except KeyboardInterrupt:  # from a callback, or in a thread that receives no signals
            stop()
        finally:
            monitor.stop()
            incoming.close()
    return ConductResult(committer.records(), stopped, monitor.environments)


def _counts(records: Records, plan: Plan, finished: set[str]) -> Counter[str]:
    wanted = finished & {trial.id for trial in plan.trials}
    status: Mapping[str, str] = dict(
        zip(records.trials["trial"].to_pylist(), records.trials["status"].to_pylist(), strict=True)
    )
    return Counter(status[trial] for trial in wanted)


class _Committer:
    """Stores results: in memory or, with a folder, in a thread that commits recent results in batches."""

    def __init__(self, folder: RunFolder | None, monitor: Monitor) -> None:
        self._folder = folder
        self._monitor = monitor
        self._results: list[TrialResult] = []
        self._queue: queue.Queue[Sequence[TrialResult] | None] = queue.Queue()
        self._fault: BaseException | None = None
        self._start = monotonic()
        self._thread = threading.Thread(target=self._commit_all, name="gradlab-commit", daemon=True)

    def __enter__(self) -> _Committer:
        if self._folder is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._folder is not None:
            self._queue.put(None)
            self._thread.join()
        if self._fault is not None and error[0] is None:
            raise self._fault

    def add(self, results: Sequence[TrialResult]) -> None:
        if self._fault is not None:
            raise self._fault
        if not results:
            return
        if self._folder is None:
            self._results += results
        else:
            self._queue.put(results)

    def records(self) -> Records:
        if self._folder is not None:
            return self._folder.records
        return Records([MemoryChunk.of(self._results)])

    def _commit_all(self) -> None:
        assert self._folder is not None
        try:
            while (first := self._queue.get()) is not None:
                gathered, more = list(first), True
                pause = min(max(COMMIT_SECONDS, (monotonic() - self._start) / 400), MAX_PAUSE)
                deadline = monotonic() + pause
                while more and (left := deadline - monotonic()) > 0:
                    try:
                        results = self._queue.get(timeout=left)
                    except queue.Empty:
                        break
                    more = results is not None
                    gathered += results or ()
                self._folder.commit(gathered)
                if not more:
                    return
        except BaseException as fault:  # for example, the disk is full: stop, because nothing more can be stored
            self._fault = fault
            self._monitor.stop()

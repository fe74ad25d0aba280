"""Runs the remaining trials of a plan and stores every result: the only process that submits trials and writes.

plan ─▶ what is already stored? ─▶ bundles ─▶ executor ─▶ results ─▶ committed within half a second
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import monotonic, time
from types import FrameType
from typing import Any

from gradlab.errors import INTERRUPTED
from gradlab.plans.plan import Plan
from gradlab.runs.executors.base import INTERRUPTS
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.store.records import MemoryChunk, Records
from gradlab.runs.store.status import heartbeat, repeated
from gradlab.runs.worker import Monitor
from gradlab.trials.outcome import TrialResult
from gradlab.trials.trial import TrialLabel

COMMIT_SECONDS = 0.5
"""Maximum delay until a finished trial is on disk; in a long run the pause grows, to keep chunks few."""
MAX_PAUSE = 30.0


Runner = Callable[[Collection[str], Monitor], Generator[list[TrialResult]]]
"""Runs the trials that have these ids and yields their results as they finish: an executor, or calls of user code."""


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
            planned.group.name: max(planned.known_cost.steps, 1) if planned.known_cost else 1 for planned in plan.groups
        }
        self._cost = {planned.group.name: planned.rough_seconds for planned in plan.groups}
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
class TrialsResult:
    """What running the trials of a plan left."""

    records: Records
    stopped: bool
    """Whether Ctrl-C or SIGTERM stopped it."""
    environments: tuple[Mapping[str, Any], ...] = ()
    """Other environments than the coordinator's own in which trials ran, accepted by `mixed`."""


def run_trials(
    plan: Plan,
    runner: Runner,
    folder: RunFolder | None,
    *,
    phase: str | None = None,
    earlier: Records | None = None,
    fail_fast: bool = False,
    give_up: int | None = None,
    on_start: Callable[[Tally], None] | None = None,
    on_results: Callable[[Sequence[TrialResult]], None] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> TrialsResult:
    """Run every trial of the plan that has no result yet. With a folder, results are committed as they arrive.

    With `fail_fast` the first failure ends it; with `give_up`, so many failures without any other trial. `phase` names
    the phase of a run that has several, for whoever watches it; `earlier` are results of earlier phases of a run
    without a folder.
    """
    before = folder.records if folder is not None else earlier or Records(())
    finished = before.finished
    todo = list({trial.id: trial for trial in plan.trials if trial.id not in finished}.values())
    monitor = Monitor()
    ended = Counter(before.status[trial] for trial in finished & {trial.id for trial in plan.trials})
    tally = Tally(plan, todo, ended, monitor, phase)
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
            stack.enter_context(heartbeat(folder.path, tally.snapshot))
        stack.enter_context(committer.committing())
        incoming = runner([trial.id for trial in todo], monitor)
        try:
            for results in incoming:
                if folder is not None:
                    folder.keep_environments(monitor.environments)  # before the results that were made there
                committer.add(results)
                tally.add(results)
                if on_results is not None:
                    on_results(results)
                hopeless = give_up is not None and tally.failed >= max(give_up, tally.counts.total())
                if (fail_fast and tally.failed) or hopeless:
                    monitor.stop()
        except KeyboardInterrupt:  # from a callback, or in a thread that receives no signals
            stop()
        finally:
            monitor.stop()
            incoming.close()
    return TrialsResult(committer.records(), stopped, monitor.environments)


class _Committer:
    """Stores results: in memory or, with a folder, in a thread that commits recent results in batches."""

    def __init__(self, folder: RunFolder | None, monitor: Monitor) -> None:
        self._folder = folder
        self._monitor = monitor
        self._results: list[TrialResult] = []
        """Those that are not committed yet."""
        self._lock = threading.Lock()
        self._fault: BaseException | None = None
        self._start = monotonic()

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Commit while the block runs, and what is left at its end."""
        if self._folder is None:
            yield
            return
        with repeated("gradlab-commit", self._commit, self._pause):
            yield
        if self._fault is not None:
            raise self._fault

    def add(self, results: Sequence[TrialResult]) -> None:
        if self._fault is not None:
            raise self._fault
        with self._lock:
            self._results += results

    def records(self) -> Records:
        return Records([MemoryChunk.of(self._results)]) if self._folder is None else self._folder.records

    def _pause(self) -> float:
        return min(max(COMMIT_SECONDS, (monotonic() - self._start) / 400), MAX_PAUSE)

    def _commit(self) -> None:
        assert self._folder is not None
        with self._lock:
            results, self._results = self._results, []
        try:
            if results and self._fault is None:
                self._folder.commit(results)
        except BaseException as fault:  # for example, the disk is full: stop, because nothing more can be stored
            self._fault = fault
            self._monitor.stop()


# Ctrl-C: the first stops the run in order and keeps finished trials, the second ends the process at once.


@contextmanager
def on_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Call `action` on the first SIGINT, SIGTERM or SIGHUP inside the block; a second ends the process with code 130.

    Ending at once is safe: results are committed whole or not at all. Outside the main thread signals cannot be
    handled, and the block does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = hung_up = False
    hang_up = getattr(signal, "SIGHUP", None)

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal seen, hung_up
        hung_up = hung_up or number == hang_up
        if seen and number == hang_up:
            return  # a closing terminal sends it twice without a key press
        if seen:
            for worker in multiprocessing.active_children():
                worker.kill()
            os._exit(INTERRUPTED)
        seen = True
        action()

    # a signal that is ignored on purpose (nohup, a background job), or handled outside Python, keeps its handler
    ours = [number for number in INTERRUPTS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, handle) for number in ours}
    try:
        yield
    finally:
        for number, handler in before.items():
            # the second hang-up of a closing terminal may come only now, while the report is written
            signal.signal(number, signal.SIG_IGN if hung_up and number == hang_up else handler)

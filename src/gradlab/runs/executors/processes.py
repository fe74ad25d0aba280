"""Worker processes instead of threads, for trials so small that the interpreter lock is their bottleneck."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from time import sleep
from typing import Annotated, Any, ClassVar

from pydantic import Field

from gradlab.arithmetic import one_blas_thread
from gradlab.errors import EnvironmentFault
from gradlab.runs.executors.base import INTERRUPTS, Costs, Executor, signals_blocked, workers_for
from gradlab.runs.remote import pack_results, unpack_results
from gradlab.runs.worker import Bundle, Monitor, run_bundle
from gradlab.trials.outcome import TrialResult

GROUP_SECONDS = 0.2
"""Seconds that a signal to the whole process group may take to reach this process after its workers."""


class Processes(Executor):
    """Separate processes, one trial each: a second to start, then no shared interpreter lock."""

    name = "processes"
    isolated = True
    bundle_seconds: ClassVar[float] = 0.3
    costs: ClassVar[Costs] = Costs(start=2.0, trip=1e-3, bundle=5e-4, trial=5e-4)
    workers: Annotated[int, Field(ge=1)] | None = None

    def width(self, trials: int) -> int:
        """As many as there are workers."""
        return workers_for(trials, self.workers)

    def run(self, bundles: Sequence[Bundle], monitor: Monitor) -> Generator[list[TrialResult]]:
        """Distribute bundles to all workers; a worker that dies ends the run, and finished trials are kept."""
        if monitor.stopping or not bundles:
            return
        context = multiprocessing.get_context("spawn")
        flag = context.RawValue("b", 0)  # shared memory without a lock: a signal handler may set it
        monitor.share_flag(flag)
        owners: dict[Any, Bundle] = {}
        broken = False
        with ProcessPoolExecutor(self.width(len(bundles)), context, _start_worker, (flag,)) as pool:
            try:
                with signals_blocked(*INTERRUPTS):  # workers inherit the mask and change it once they have started
                    for bundle in bundles:
                        owners[pool.submit(_run_in_worker, bundle)] = bundle
            except BrokenProcessPool:
                broken = True
            try:
                for future in as_completed(list(owners)):
                    bundle = owners.pop(future)
                    if isinstance(future.exception(), BrokenProcessPool):
                        broken = True  # results that others have finished are still to come
                    else:
                        yield unpack_results(future.result(), {trial.id: trial for trial in bundle})
            except BaseException:  # the caller has stopped, so stop the workers
                monitor.stop()
                raise
        sleep(GROUP_SECONDS if broken else 0)
        if broken and not monitor.stopping:
            raise EnvironmentFault(
                "a worker process died (killed from outside, or out of memory; or this is a script that does not call "
                'gradlab.run below `if __name__ == "__main__":`); finished trials are kept: run the same command again '
                "to resume"
            )


_monitor = Monitor()
"""In a worker process: the coordinator's flag stops it, and its progress stays here."""


def _start_worker(flag: Any) -> None:
    _monitor.share_flag(flag)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides what Ctrl-C means
    if hasattr(signal, "pthread_sigmask"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # and what a closed terminal means
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker if its coordinator has died: nobody could receive its results."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_in_worker(bundle: Bundle) -> bytes:
    """Return the results by trial."""
    with one_blas_thread():
        return pack_results(run_bundle(bundle, _monitor))

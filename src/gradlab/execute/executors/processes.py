"""Worker processes instead of threads: for trials so small that the interpreter's lock is what they wait for."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from gradlab.errors import EnvironmentFault
from gradlab.execute.base import Bundle, Executor, TrialResult, one_blas_thread, run_bundle
from gradlab.execute.watch import Stopped, Watch
from gradlab.trial.trial import Trial

LOOK_AGAIN = 0.2
"""Seconds after which the coordinator asks whether to stop."""


class Processes(Executor):
    """Processes of their own, one trial each: a second to start, then no shared interpreter lock."""

    name = "processes"
    workers: Annotated[int, Field(ge=1)] | None = None

    def width(self, trials: int) -> int:
        """As many as there are workers."""
        return max(1, min(self.workers or os.cpu_count() or 1, trials))

    def run(self, bundles: Sequence[Bundle], watch: Watch) -> Generator[list[TrialResult]]:
        """All bundles to all workers; a worker that dies ends the run, what was finished is kept."""
        if watch.stopping or not bundles:
            return
        context = multiprocessing.get_context("spawn")
        stop = context.Event()
        workers = self.width(len(bundles))
        with ProcessPoolExecutor(workers, context, _start_worker, (stop,)) as pool:
            owners = {pool.submit(_work, bundle): bundle for bundle in bundles}
            waiting = set(owners)
            try:
                while waiting:
                    finished, waiting = wait(waiting, LOOK_AGAIN, FIRST_COMPLETED)
                    if watch.stopping:
                        stop.set()
                    for future in finished:
                        bundle = owners.pop(future)
                        yield [TrialResult(bundle[place], *rest) for place, *rest in future.result()]
            except BrokenProcessPool:
                raise EnvironmentFault(
                    "a worker process died (killed from outside, or out of memory); finished trials are kept, "
                    "run the same command again to go on, with fewer workers if memory was short"
                ) from None
            except BaseException:
                stop.set()
                raise


_stop: Any = None
"""In a worker process: the event that tells it to stop."""


def _start_worker(stop: Any) -> None:
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides what Ctrl-C means
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose coordinator is gone has nobody to give its results to."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _RemoteWatch(Watch):
    """A worker process cannot tell how far it is; it can be told to stop."""

    @property
    def stopping(self) -> bool:
        return bool(_stop.is_set())

    def tick(self, trial: Trial, steps: int, loss: float) -> None:
        if self.stopping:
            raise Stopped


def _work(bundle: Bundle) -> list[tuple[Any, ...]]:
    """The results by their place in the bundle, without what the coordinator has or does not need."""
    with one_blas_thread():
        results = run_bundle(bundle, _RemoteWatch())
    lean = [r.outcome and replace(r.outcome, theta=r.outcome.theta[:0]) for r in results]
    return [(n, o, r.error, r.seconds, r.digest) for n, (r, o) in enumerate(zip(results, lean, strict=True))]

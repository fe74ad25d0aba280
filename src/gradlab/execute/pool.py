"""Several trials at a time, one thread each. The fused engine holds no GIL, so threads are enough.

Every trial is one engine call with its own arrays, and BLAS is pinned to one thread: results do not depend on the
number of workers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from threadpoolctl import threadpool_limits

from gradlab.execute.base import TrialResult, run_trial
from gradlab.trial.trial import Trial


class _Stopped(BaseException):
    """Raised inside a worker when the run is interrupted; never seen outside."""


def run_pool(
    trials: Sequence[Trial], tick: Callable[[Trial, int], None] | None = None, workers: int | None = None
) -> Iterator[TrialResult]:
    """Results in the order of the trials, each as soon as it and those before it are there."""
    workers = max(1, min(workers or os.cpu_count() or 1, len(trials) or 1))
    stop = threading.Event()

    def work(trial: Trial) -> TrialResult:
        def alive(done: int) -> None:
            if stop.is_set():
                raise _Stopped
            if tick is not None:
                tick(trial, done)

        return run_trial(trial, alive)

    import numpy as np

    np.ones((2, 2)) @ np.ones((2, 2))  # the BLAS has to be loaded before it can be limited
    with threadpool_limits(1):
        if trials:
            yield work(trials[0])  # alone: it compiles or loads the kernels that the others share
        with ThreadPoolExecutor(workers, "gradlab") as executor:
            futures = [executor.submit(work, trial) for trial in trials[1:]]
            try:
                for future in futures:
                    yield future.result()
            except BaseException:
                stop.set()
                executor.shutdown(wait=True, cancel_futures=True)
                raise

"""One trial after the other, in the caller's thread: for debuggers and profilers."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from gradlab.arithmetic import one_blas_thread
from gradlab.runs.executors.base import Executor
from gradlab.runs.worker import Bundle, Monitor, run_bundle
from gradlab.trials.outcome import TrialResult


class Inline(Executor):
    """One trial after the other in the calling thread."""

    name = "inline"

    def run(self, bundles: Sequence[Bundle], monitor: Monitor) -> Generator[list[TrialResult]]:
        """Run bundle by bundle, in order."""
        with one_blas_thread():
            for bundle in bundles:
                if monitor.stopping:
                    return
                yield run_bundle(bundle, monitor)

"""One trial after the other, in the caller's own thread: for debuggers and profilers."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from gradlab.engines.base import one_blas_thread
from gradlab.execute.base import Bundle, Executor, TrialResult, run_bundle
from gradlab.execute.watch import Watch


class Inline(Executor):
    """One trial after the other in the calling thread."""

    name = "inline"

    def run(self, bundles: Sequence[Bundle], watch: Watch) -> Generator[list[TrialResult]]:
        """Bundle by bundle, in order."""
        with one_blas_thread():
            for bundle in bundles:
                if watch.stopping:
                    return
                yield run_bundle(bundle, watch)

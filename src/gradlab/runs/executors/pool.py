"""One trial per core, one thread each. The fused engine releases the GIL while it trains, so threads are enough."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Annotated, ClassVar

from pydantic import Field

from gradlab.arithmetic import one_blas_thread
from gradlab.runs.executors.base import Costs, Executor, workers_for
from gradlab.runs.worker import Bundle, Monitor, run_bundle
from gradlab.trials.outcome import TrialResult


class Pool(Executor):
    """Threads of this process, one trial each; all cores unless `workers` is given. The default."""

    name = "pool"
    costs: ClassVar[Costs] = Costs(trial=3.5e-4, locked=1.5e-3)
    workers: Annotated[int, Field(ge=1)] | None = None

    def width(self, trials: int) -> int:
        """As many as there are workers."""
        return workers_for(trials, self.workers)

    def run(self, bundles: Sequence[Bundle], monitor: Monitor) -> Generator[list[TrialResult]]:
        """Run the first trial alone (it compiles or loads the kernels that the others share), then use all workers."""
        if not bundles:
            return
        first = bundles[0][: 1 if bundles[0][0].job is None else 0]  # a command has no kernels to share
        rest = [bundle for bundle in (bundles[0][len(first) :], *bundles[1:]) if bundle]
        with one_blas_thread(), ThreadPoolExecutor(self.width(len(rest)), "gradlab") as threads:
            if first:
                yield threads.submit(run_bundle, first, monitor).result()
            try:  # only `as_completed` holds the futures, so that results do not accumulate
                for future in as_completed([threads.submit(run_bundle, bundle, monitor) for bundle in rest]):
                    yield future.result()
            except BaseException:  # the caller has stopped, so stop the workers
                monitor.stop()
                raise

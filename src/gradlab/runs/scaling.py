"""A model of how long a run takes on n cores, and where the coordinator becomes the limit. A simulation, not a promise.

    worker:       start-up, then bundle after bundle: a trip to the coordinator, and the trials
    coordinator:  one interpreter: hands out bundles, takes results, prepares chunks, one after the other

The costs are rough, from single measurements on one shared machine (benchmarks/RESULTS.md says which);
`benchmarks/executors.py` compares the model with a run. A network adds to the trip, not to the coordinator.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from gradlab.runs.packing import LEAST_SECONDS, SHARES
from gradlab.runs.packing import bundle_seconds as longer

WORKER_BYTES = 330 * 2**20
"""Memory of a worker process before its first trial: Python, NumPy, SciPy, Numba and the loaded kernels."""
BUSY = 0.95
"""Share of its time from which on the coordinator is the limit."""


@dataclass(frozen=True)
class Costs:
    """What an executor costs, in seconds; see benchmarks/RESULTS.md."""

    start: float = 0.0
    """Until the first worker can begin: processes started, packages imported, kernels loaded."""
    trip: float = 0.0
    """A worker's wait between two bundles."""
    bundle: float = 0.0
    """Of the coordinator, for a bundle: hand it out, take its answer."""
    trial: float = 3.5e-4
    """Of the coordinator, for a trial: unpack it, add it to the tables, write the chunk and its line of the ledger."""
    locked: float = 0.0
    """Of a trial, in the interpreter that threads share with the coordinator."""


@dataclass(frozen=True)
class Forecast:
    """What the model expects of a run."""

    seconds: float
    bundles: int
    trials_per_bundle: int
    coordinator: float
    """Share of the time in which the coordinator is busy, from 0 to 1."""
    efficiency: float
    """Time of the trials themselves over the time of all cores, from 0 to 1."""
    start: float = 0.0

    @property
    def limit(self) -> str:
        """What keeps the run from being faster: `coordinator`, `start-up` or `cores`."""
        if self.coordinator >= BUSY:
            return "coordinator"
        return "start-up" if self.start > self.seconds / 2 else "cores"


def forecast(
    trials: int, seconds: float, cores: int, costs: Costs, bundle_seconds: float, shared: int | None = None
) -> Forecast:
    """Simulate `trials` trials of `seconds` each on so many cores, in bundles of about `bundle_seconds`.

    `shared` is the number of cores of a machine on which workers and coordinator run together; None: the coordinator
    has a core of its own.
    """
    if not trials:
        return Forecast(0.0, 0, 0, 0.0, 1.0)
    wanted = longer(bundle_seconds, cores)
    each = max(seconds, 1e-9)
    size = max(1, min(int(wanted / each), max(trials // (SHARES * cores), int(min(LEAST_SECONDS, wanted) / each))))
    count = -(-trials // size)
    busy = free = 0.0  # of the coordinator: total, and the moment at which it is free
    ends: list[float] = [costs.start] * min(cores, count)
    heapq.heapify(ends)
    last = 0.0
    for number in range(count):
        own = min(size, trials - number * size)
        ready = heapq.heappop(ends)
        free = max(free, ready) + costs.bundle / 2
        done = free + costs.trip + own * seconds
        work = costs.bundle / 2 + own * (costs.trial + costs.locked)
        free += work  # the coordinator takes an earlier answer meanwhile: order does not change the sums
        busy += costs.bundle / 2 + work
        last = max(last, done, free)
        heapq.heappush(ends, max(done, free - work))
    last = max(last, costs.start + busy)
    if shared is not None:
        last = max(last, costs.start + (trials * seconds + busy) / shared)
    return Forecast(last, count, size, min(1.0, busy / last), trials * seconds / (last * cores), costs.start)

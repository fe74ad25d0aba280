"""The executor interface: bundles of trials in, results out.

A worker is one call of `gradlab.runs.worker.run_bundle`. An executor decides only where and when these calls happen;
it cannot change the bits of a result. An executor for a cluster is one more file that sends `run_bundle` elsewhere.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradlab.parts import Part
from gradlab.runs.monitor import Monitor
from gradlab.runs.worker import Bundle
from gradlab.trials.outcome import TrialResult

SHARES = 8
"""Minimum number of bundles per worker, so that the last ones end at about the same time."""
SECONDS_PER_CORE = 4e-3
"""A cluster of many cores gets longer bundles, so that the coordinator, which is one process, is asked less often."""


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


class Executor(Part):
    """Runs bundles of trials."""

    part: ClassVar[str] = "executor"
    isolated: ClassVar[bool] = False
    """Whether trials run in other processes, so that a trial that kills its process does not end the others."""

    bundle_seconds: ClassVar[float] = 0.1
    """Seconds of work in a bundle; a longer trial is a bundle by itself."""
    costs: ClassVar[Costs] = Costs()
    """What it costs, for estimates of the time of a run."""
    local: ClassVar[bool] = True
    """Whether trials run on this machine, so that its cores and memory limit their number."""

    @abstractmethod
    def run(self, bundles: Sequence[Bundle], monitor: Monitor) -> Generator[list[TrialResult]]:
        """Run every trial once and yield results as they finish, in any order.

        `bundles` are the trials, grouped into calls of about equal cost. Pass `monitor` on to `run_bundle`: it collects
        progress, and raises `Stopped` inside a trial when the run is stopping. Once `monitor.stopping` is true, start
        nothing further and yield what has finished.
        """

    def check(self) -> None:
        """Raise an `InvalidInput` if something is missing that it needs: called before anything is run."""

    def shares_machine(self) -> bool:
        """Whether workers run on the coordinator's own machine, and so compete with it for its cores."""
        return self.local

    def cores_per_machine(self) -> int:
        """Return how many trials one machine runs at the same time, as far as it is known before the run."""
        return self.width(2**31)

    def width(self, trials: int) -> int:
        """Return how many of `trials` trials run at the same time."""
        return 1


def workers_for(trials: int, wanted: int | None) -> int:
    """Return the number of workers: as many as requested, or as there are cores, but no more than trials."""
    return max(1, min(wanted or os.cpu_count() or 1, trials))

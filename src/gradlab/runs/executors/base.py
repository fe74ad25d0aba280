"""The executor interface: bundles of trials in, results out.

A worker is one call of `gradlab.runs.worker.run_bundle`. An executor decides only where and when these calls happen;
it cannot change the bits of a result. An executor for a cluster is one more file that sends `run_bundle` elsewhere.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Generator, Sequence
from typing import ClassVar

from gradlab.parts import Part
from gradlab.runs.monitor import Monitor
from gradlab.runs.scaling import Costs
from gradlab.runs.worker import Bundle
from gradlab.trials.result import TrialResult


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

"""A worker on some machine of a cluster: it checks that it gives the bits of the run, then runs bundles.

One per process and run. Ray and SLURM only differ in how tickets come and answers go.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

from gradlab.data.placed import place
from gradlab.engines.base import one_blas_thread
from gradlab.runs.compiling import Kernels, compiling_alone
from gradlab.runs.fingerprint import compare_fingerprints, describe_refusal, take_fingerprint
from gradlab.runs.freight import load_results
from gradlab.runs.monitor import Monitor
from gradlab.runs.parcels import Answer, Cargo, Ticket
from gradlab.runs.worker import run_bundle


class RemoteWorker:
    """Runs bundles of one run in this process."""

    def __init__(self, cargo: Cargo, data: Mapping[str, Any] | None = None) -> None:
        self._cargo = cargo
        own = take_fingerprint()
        differences = compare_fingerprints(cargo.fingerprint, own)
        self.refusal = describe_refusal(own, differences) if differences and not cargo.mixed else None
        """Why this worker may not run trials; None if it may."""
        self._other = own if differences else None
        self._kernels = Kernels()
        place(data or {})

    def run(self, tickets: Sequence[Ticket], monitor: Monitor) -> Answer:
        """Run a bundle with one BLAS thread; the first worker of a machine that has to compile does so alone."""
        if self.refusal is not None:
            return Answer(refused=self.refusal, node=platform.node())
        trials = self._cargo.trials(tickets)
        results = []
        with one_blas_thread():
            while (cold := self._kernels.find_cold(trials)) is not None and not monitor.stopping:
                with compiling_alone():
                    results += run_bundle((cold,), monitor)
                trials = tuple(trial for trial in trials if trial is not cold)
            results += run_bundle(trials, monitor)
        return Answer(load_results(results), node=platform.node(), other=self._other)

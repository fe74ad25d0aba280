"""What `gradlab run --dry-run` says about an executor: bundles, memory, and the time that the model expects."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from gradlab.cli.output import duration
from gradlab.plans.cost import measure_speed
from gradlab.plans.plan import Plan
from gradlab.runs.executors.base import Executor
from gradlab.runs.scaling import WORKER_BYTES, Forecast, forecast

LIMITS = {"coordinator": "limited by the coordinator", "start-up": "mostly start-up", "cores": "limited by cores"}


@dataclass(frozen=True)
class Expectation:
    """The run of a plan's remaining trials by an executor."""

    executor: str
    cores: int
    per_machine: int
    worker_bytes: int
    model: Forecast

    @property
    def machine_bytes(self) -> int:
        """Memory of one machine's workers."""
        return self.worker_bytes * self.per_machine

    def lines(self) -> list[str]:
        """Four lines for people."""
        model = self.model
        many = f"{_count(model.bundles, 'bundle')} of up to {_count(model.trials_per_bundle, 'trial')}"
        worker, machine = (f"{size / 2**20:,.0f} MiB" for size in (self.worker_bytes, self.machine_bytes))
        return [
            f"{self.executor}: {many}, {self.cores:,} at a time",
            f"memory: {worker} per worker, {machine} on a machine with {_count(self.per_machine, 'worker')}",
            f"expected time on {_count(self.cores, 'core')}: {duration(model.seconds)}, {LIMITS[model.limit]}",
            f"(a model: cores train {100 * model.efficiency:.0f} % of the time, "
            f"the coordinator is busy {100 * model.coordinator:.0f} % of it)",
        ]

    def to_json(self) -> dict[str, Any]:
        """All numbers."""
        model = self.model
        return {
            "executor": self.executor,
            "cores": self.cores,
            "bundles": model.bundles,
            "trials_per_bundle": model.trials_per_bundle,
            "bytes_per_worker": self.worker_bytes,
            "workers_per_machine": self.per_machine,
            "bytes_per_machine": self.machine_bytes,
            "expected_seconds": model.seconds,
            "efficiency": model.efficiency,
            "coordinator_share": model.coordinator,
            "limit": model.limit,
        }


def expect(plan: Plan, executor: Executor, trials: int) -> Expectation:
    """Estimate the run of `trials` trials of a plan; nothing is started and no cluster is reached."""
    cores = executor.width(max(trials, 1))
    total = len(plan.trials) or 1
    each = plan.seconds(measure_speed()) / total
    worker = plan.bytes + (WORKER_BYTES if executor.isolated else 0)
    shared = os.cpu_count() or 1 if executor.shares_machine() else None
    model = forecast(trials, each, cores, executor.costs, executor.bundle_seconds, shared)
    return Expectation(executor.name, cores, min(executor.cores_per_machine(), cores), worker, model)


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' if number != 1 else ''}"

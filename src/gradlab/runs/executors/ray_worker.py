"""What runs inside a cluster of Ray: the task of a bundle, and the board on which workers show their trials."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

from gradlab.runs.monitor import Monitor, Stopped
from gradlab.runs.parcels import Answer, Ticket
from gradlab.runs.remote import RemoteWorker
from gradlab.trials.trial import TrialLabel

REPORT_SECONDS = 1.0
"""Seconds between a worker's reports."""
FORGET_SECONDS = 30.0
"""A worker that has not reported for so long has died."""
Line = tuple[str, int, float, float]
"""A trial in training: id, steps, loss, seconds since it began."""


class Board:
    """An actor: workers report their trials to it and learn whether to stop."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[float, tuple[Line, ...]]] = {}
        self._stopping = False

    def report(self, worker: str, lines: tuple[Line, ...]) -> bool:
        """Set what a worker is training; tells it whether to stop."""
        self._lines[worker] = monotonic(), lines
        return self._stopping

    def read(self) -> list[Line]:
        """All trials in training."""
        now = monotonic()
        self._lines = {worker: found for worker, found in self._lines.items() if now - found[0] < FORGET_SECONDS}
        return [line for _, lines in self._lines.values() for line in lines]

    def stop(self) -> None:
        """Let workers begin nothing further."""
        self._stopping = True


class _BoardMonitor(Monitor):
    """A worker's monitor: it reports once a second, and stops when the board says so."""

    def __init__(self, board: Any, worker: str) -> None:
        super().__init__()
        self._board, self._worker = board, worker
        self._reported = 0.0

    def began(self, trial: TrialLabel) -> None:
        super().began(trial)
        self._report()
        if self.stopping:
            self.ended(trial)
            raise Stopped

    def tick(self, trial: TrialLabel, steps: int, loss: float) -> None:
        super().tick(trial, steps, loss)
        self._report()

    def leave(self) -> None:
        """Take this worker off the board."""
        self._board.report.remote(self._worker, ())

    def _report(self) -> None:
        import ray

        now = monotonic()
        if now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        lines = tuple((live.trial.id, live.steps, live.loss, now - live.started) for live in self.running())
        try:
            if ray.get(self._board.report.remote(self._worker, lines), timeout=REPORT_SECONDS):
                self.stop()
        except ray.exceptions.RayError:  # the board is slow or being restarted: train on
            return


_workers: dict[Any, RemoteWorker] = {}
"""Of this process: the worker of the run that it serves."""


def run_in_ray(shared: Sequence[Any], board: Any, tickets: Sequence[Ticket]) -> tuple[Answer, str]:
    """Run a bundle in this process of Ray; gives the answer and the id of the machine."""
    import ray

    context = ray.get_runtime_context()
    cargo, data = shared
    if cargo not in _workers:
        _workers.clear()
        arrays = {source: ray.get(reference) for source, reference in data.items()}
        _workers[cargo] = RemoteWorker(ray.get(cargo), arrays)
    monitor = _BoardMonitor(board, context.get_worker_id())
    try:
        return _workers[cargo].run(tickets, monitor), context.get_node_id()
    finally:
        monitor.leave()

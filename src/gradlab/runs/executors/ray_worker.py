"""What runs inside a cluster of Ray: the task of a bundle, and the board on which workers show their trials."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

from gradlab.runs.monitor import Monitor
from gradlab.runs.parcels import Answer, Ticket
from gradlab.runs.remote import RemoteWorker

REPORT_SECONDS, MOST_REPORTS = 2.0, 100
"""Seconds between a worker's reports, and reports per second of all workers: in a large cluster each reports less."""
FORGET_REPORTS = 10
"""A worker that has missed so many reports has died."""
Line = tuple[str, int, float, float]
"""A trial in training: id, steps, loss, seconds since it began."""


class Board:
    """An actor: workers report their trials to it and learn whether to stop."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[float, tuple[Line, ...]]] = {}
        self._stopping = False

    def report(self, worker: str, lines: tuple[Line, ...]) -> float | None:
        """Set what a worker is training; tells it the seconds until its next report, or None: stop."""
        self._lines[worker] = monotonic(), lines
        return None if self._stopping else self._pause()

    def read(self) -> list[Line]:
        """All trials in training."""
        oldest = monotonic() - FORGET_REPORTS * self._pause()
        self._lines = {worker: found for worker, found in self._lines.items() if found[0] > oldest}
        return [line for _, lines in self._lines.values() for line in lines]

    def _pause(self) -> float:
        return max(REPORT_SECONDS, len(self._lines) / MOST_REPORTS)

    def stop(self) -> None:
        """Let workers begin nothing further."""
        self._stopping = True


class _Service:
    """This process in the service of one run: its worker, and a thread that reports every few seconds.

    The thread waits for the board instead of the task: while a task waits, Ray takes its core for free and starts one
    more worker process on it.
    """

    def __init__(self, cargo: Any, data: Any, board: Any) -> None:
        import ray

        arrays = {source: ray.get(reference) for source, reference in data.items()}
        self.worker = RemoteWorker(ray.get(cargo), arrays)
        self.monitor = Monitor()
        self._board, self._name = board, ray.get_runtime_context().get_worker_id()
        threading.Thread(target=self._report_on, name="gradlab-report", daemon=True).start()

    def _report_on(self) -> None:
        import ray

        pause: float | None = REPORT_SECONDS
        while pause is not None and not self.monitor.stopping:
            now = monotonic()
            lines = tuple((one.trial.id, one.steps, one.loss, now - one.started) for one in self.monitor.running())
            with suppress(Exception):  # the board is slow, being restarted, or gone with its run: train on
                pause = ray.get(self._board.report.remote(self._name, lines), timeout=REPORT_SECONDS)
            sleep(pause or 0)
        self.monitor.stop()


_services: dict[Any, _Service] = {}
"""Of this process: the run that it serves."""


def run_in_ray(shared: Sequence[Any], board: Any, tickets: Sequence[Ticket]) -> tuple[Answer, str]:
    """Run a bundle in this process of Ray; gives the answer and the id of the machine."""
    import ray

    cargo, data = shared
    if cargo not in _services:
        for earlier in _services.values():
            earlier.monitor.stop()
        _services.clear()
        _services[cargo] = _Service(cargo, data, board)
    service = _services[cargo]
    return service.worker.run(tickets, service.monitor), ray.get_runtime_context().get_node_id()

"""Communication between the coordinator and its workers: what is running, and when to stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from gradlab.trials.trial import TrialLabel


class Stopped(BaseException):
    """Raised inside a trial when the run is stopping; such a trial has no result and is run again later."""


@dataclass(frozen=True)
class Live:
    """A trial in training: its progress and its latest loss."""

    trial: TrialLabel
    steps: int
    loss: float
    started: float


class Monitor:
    """Shared by all workers of one process. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._stop = False  # a plain flag: a signal handler may set it at any moment
        self._running: dict[str, Live] = {}
        self._environments: list[Mapping[str, Any]] = []

    def stop(self) -> None:
        """Start no further trial, and end those in training at their next tick."""
        self._stop = True

    @property
    def stopping(self) -> bool:
        """Whether the run is stopping."""
        return self._stop

    def began(self, trial: TrialLabel) -> None:
        """Register a trial that a worker starts; raise `Stopped` if the run is stopping."""
        if self.stopping:
            raise Stopped
        self._running[trial.id] = Live(trial, 0, float("nan"), monotonic())

    def tick(self, trial: TrialLabel, steps: int, loss: float) -> None:
        """Record progress; raise `Stopped` if the run is stopping."""
        if self.stopping:
            raise Stopped
        before = self._running.get(trial.id)
        self._running[trial.id] = Live(trial, steps, loss, before.started if before else monotonic())

    def ended(self, trial: TrialLabel) -> None:
        """Unregister a trial that has finished or was abandoned."""
        self._running.pop(trial.id, None)

    def replace(self, running: Iterable[Live]) -> None:
        """Set the trials in training, for an executor whose workers report from other machines."""
        self._running = {live.trial.id: live for live in running}

    def meet(self, environment: Mapping[str, Any]) -> None:
        """Record that trials ran in another environment than the run's own, and were accepted."""
        if environment not in self._environments:
            self._environments.append(environment)

    @property
    def environments(self) -> tuple[Mapping[str, Any], ...]:
        """The other environments that trials ran in."""
        return tuple(self._environments)

    def running(self) -> tuple[Live, ...]:
        """Return the trials in training, oldest first."""
        return tuple(sorted(self._running.copy().values(), key=lambda live: live.started))

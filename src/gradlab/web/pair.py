"""Two networks that train in step: the trials of a study with two arms and one seed, driven from outside.

The loop is that of every trial (`engines.loop.Course`), so the bits are those of `gradlab run`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.engines.base import Engine
from gradlab.engines.loop import Course, Trainer, require_denormals, stops_of
from gradlab.network.norms import Running
from gradlab.plans.plan import Plan
from gradlab.trials.outcome import digest
from gradlab.trials.setup import Setup, prepare

Array = NDArray[Any]


@dataclass(frozen=True)
class ArmState:
    """One network between two steps; the arrays are copies, or are not written to any more."""

    theta: Array
    running: Sequence[Running]
    losses: Array
    """The loss of every step so far."""
    diverged_step: int | None
    finished: bool
    digest: str | None
    """Of the trial's results, once it is at its end."""


@dataclass(frozen=True)
class PairState:
    """Both networks after the same step."""

    step: int
    arms: tuple[ArmState, ...]


class Pair:
    """Both trials, each with its set-up and its course. Not safe for several threads: one thread drives it."""

    def __init__(self, plan: Plan) -> None:
        require_denormals()
        self.plan = plan
        self.setups = tuple(prepare(trial) for trial in plan.trials)
        self._trainers = [_make_trainer(setup) for setup in self.setups]
        self._courses = [
            Course(setup, trainer, None) for setup, trainer in zip(self.setups, self._trainers, strict=True)
        ]
        self._stops = [
            stops_of([setup], trainer.longest) for setup, trainer in zip(self.setups, self._trainers, strict=True)
        ]
        self._losses = [np.full(setup.steps, np.nan) for setup in self.setups]
        self._done = [0 for _ in self.setups]
        self._digests: list[str | None] = [None for _ in self.setups]
        for course in self._courses:
            course.begin()

    @property
    def steps(self) -> int:
        """The budget."""
        return self.setups[0].steps

    @property
    def step(self) -> int:
        """Steps made by the network that is furthest."""
        return max(self._done)

    @property
    def finished(self) -> bool:
        """Whether both are at their end, or have diverged."""
        return all(map(self._has_ended, range(len(self.setups))))

    def _has_ended(self, arm: int) -> bool:
        return self._courses[arm].ended or self._done[arm] >= self.setups[arm].steps

    def advance(self, to: int) -> None:
        """Train both up to step `to`, or to their end."""
        for arm in range(len(self.setups)):
            self._advance_arm(arm, min(to, self.steps))

    def _advance_arm(self, arm: int, to: int) -> None:
        while self._done[arm] < to and not self._has_ended(arm):
            start, stops = self._done[arm], self._stops[arm]
            stop = min(to, stops[bisect_right(stops, start)])
            found = self._courses[arm].advance(start, stop)
            end = start + len(found.losses)
            self._losses[arm][start:end] = found.losses
            self._done[arm] = end
        if self._has_ended(arm) and self._digests[arm] is None:
            self._digests[arm] = digest(self.plan.trials[arm].id, self._courses[arm].outcome(), None)

    def state(self) -> PairState:
        """Both networks as they are now."""
        return PairState(self.step, tuple(map(self._arm_state, range(len(self.setups)))))

    def _arm_state(self, arm: int) -> ArmState:
        theta, running = self._trainers[arm].parameters()
        return ArmState(
            theta,
            running,
            self._losses[arm][: self._done[arm]],
            self._courses[arm].diverged_step,
            self._has_ended(arm),
            self._digests[arm],
        )


def _make_trainer(setup: Setup) -> Trainer:
    trial = setup.trial
    engine: Engine = trial.config.train.engine.build(trial.catalog)
    return engine.trainer(setup)

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

from gradlab.arithmetic import require_denormals
from gradlab.engines.base import Engine
from gradlab.engines.loop import Course, stops_of
from gradlab.network.norms import Running
from gradlab.plans.plan import Plan
from gradlab.trials.outcome import digest
from gradlab.trials.setup import prepare
from gradlab.trials.trial import Trial

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


class Learner:
    """One trial: its set-up, its course, and what came of it so far."""

    def __init__(self, trial: Trial) -> None:
        self.setup = prepare(trial)
        engine: Engine = trial.config.train.engine.build(trial.catalog)
        self.trainer = engine.trainer(self.setup)
        self._course = Course(self.setup, self.trainer, None)
        self._stops = stops_of([self.setup], self.trainer.longest)
        self._losses = np.full(self.setup.steps, np.nan)
        self.step = 0
        self._digest: str | None = None
        self._course.begin()

    @property
    def finished(self) -> bool:
        """Whether it is at its end, or has diverged."""
        return self._course.ended or self.step >= self.setup.steps

    def advance(self, to: int) -> None:
        """Train up to step `to`, or to the end."""
        while self.step < to and not self.finished:
            stop = min(to, self._stops[bisect_right(self._stops, self.step)])
            losses = self._course.advance(self.step, stop).losses
            end = self.step + len(losses)
            self._losses[self.step : end] = losses
            self.step = end
        if self.finished and self._digest is None:
            self._digest = digest(self.setup.trial.id, self._course.outcome(), None)

    def state(self) -> ArmState:
        """The network as it is now."""
        theta, running = self.trainer.parameters()
        losses = self._losses[: self.step]
        return ArmState(theta, running, losses, self._course.diverged_step, self.finished, self._digest)


class Pair:
    """Both trials of a plan. Not safe for several threads: one thread drives it."""

    def __init__(self, plan: Plan) -> None:
        require_denormals()
        self.learners = tuple(map(Learner, plan.trials))
        self.setups = tuple(learner.setup for learner in self.learners)

    @property
    def step(self) -> int:
        """Steps made by the network that is furthest."""
        return max(learner.step for learner in self.learners)

    @property
    def finished(self) -> bool:
        """Whether both are at their end, or have diverged."""
        return all(learner.finished for learner in self.learners)

    def advance(self, to: int) -> None:
        """Train both up to step `to`, or to their end."""
        for learner in self.learners:
            learner.advance(to)

    def state(self) -> PairState:
        """Both networks as they are now."""
        return PairState(self.step, tuple(learner.state() for learner in self.learners))

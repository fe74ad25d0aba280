"""The base class of schedules: step -> factor on the learning rate, and how a schedule reacts to training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from gradlab.parts import Part
from gradlab.spec.config import EpochMetric


@dataclass(frozen=True)
class Horizon:
    """The number of steps in total and per epoch."""

    steps: int
    steps_per_epoch: int

    def epoch(self, step: int) -> int:
        """Return the epoch (from 0) of a step (from 0)."""
        return step // self.steps_per_epoch


class Reaction(ABC):
    """The state of a schedule that reacts to a metric: it is told the metric after every epoch of one trial."""

    metric: EpochMetric
    """What it reacts to."""

    @abstractmethod
    def update(self, value: float) -> float:
        """Take the metric of the epoch that has ended; return the factor on the learning rate from now on.

        The factor multiplies the rates that `Schedule.factor` gave beforehand. The value may be NaN or infinite.
        """


class Schedule(Part):
    """η(step) = lr · factor(step), steps counted from 0. All rates are computed once, before training.

    A schedule that also depends on what training gives returns a `Reaction`.
    """

    part: ClassVar[str] = "schedule"

    @abstractmethod
    def factor(self, step: int, horizon: Horizon) -> float:
        """What multiplies the learning rate in this step: finite, not negative, and the same whenever asked.

        step: from 0, counted after the warm-up. horizon: how many such steps there are, in all and per epoch.
        """

    def reaction(self, lr: float) -> Reaction | None:
        """Return a new state for one trial if the schedule reacts to a metric; None if it does not (the default).

        lr: the trial's learning rate, for limits that are absolute.
        """
        return None

"""The base class of schedules: step -> factor on the learning rate."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from gradlab.parts import Part


@dataclass(frozen=True)
class Horizon:
    """The number of steps in total and per epoch."""

    steps: int
    steps_per_epoch: int

    def epoch(self, step: int) -> int:
        """Return the epoch (from 0) of a step (from 0)."""
        return step // self.steps_per_epoch


class Schedule(Part):
    """η(step) = lr · factor(step), steps counted from 0. All rates are computed once, before training."""

    part: ClassVar[str] = "schedule"

    @abstractmethod
    def factor(self, step: int, horizon: Horizon) -> float:
        """What multiplies the learning rate in this step: finite, not negative, and the same whenever asked.

        step: from 0, counted after the warm-up. horizon: how many such steps there are, in all and per epoch.
        """

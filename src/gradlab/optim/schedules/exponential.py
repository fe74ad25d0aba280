"""Exponential decay."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gradlab.optim.schedules.base import Horizon, Schedule


class Exponential(Schedule):
    """η = lr · gamma^epoch."""

    name = "exponential"
    gamma: Annotated[float, Field(gt=0)] = 0.99

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts epochs."""
        return self.gamma ** horizon.epoch(step)

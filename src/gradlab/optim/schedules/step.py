"""Step decay."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gradlab.optim.schedules.base import Horizon, Schedule


class Step(Schedule):
    """η = lr · gamma^⌊epoch/every⌋."""

    name = "step"
    every: Annotated[int, Field(ge=1)] = 100
    """Epochs between drops."""
    gamma: Annotated[float, Field(gt=0)] = 0.5

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts epochs."""
        return self.gamma ** (horizon.epoch(step) // self.every)

"""Linear decay."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gradlab.optim.schedules.base import Horizon, Schedule


class Linear(Schedule):
    """η = lr · (start + (end − start) t/T), T the total number of steps."""

    name = "linear"
    start: Annotated[float, Field(ge=0)] = 1.0
    end: Annotated[float, Field(ge=0)] = 0.0

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts steps."""
        return self.start + (self.end - self.start) * step / horizon.steps

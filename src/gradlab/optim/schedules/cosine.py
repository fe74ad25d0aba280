"""Cosine annealing."""

from __future__ import annotations

from math import cos, pi
from typing import Annotated

from pydantic import Field

from gradlab.optim.schedules.base import Horizon, Schedule


class Cosine(Schedule):
    """η = lr · (floor + (1 − floor)(1 + cos(π t/T))/2), T the total number of steps."""

    name = "cosine"
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Final value, as a share of lr."""

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts steps; the floor would be reached at T, one after the last step."""
        return self.floor + (1 - self.floor) * (1 + cos(pi * step / horizon.steps)) / 2

"""Cosine annealing."""

from __future__ import annotations

from math import cos, pi
from typing import Annotated

from pydantic import Field

from gradlab.optim.schedules.base import Horizon, Schedule


class Cosine(Schedule):
    """η = lr · (floor + (1 − floor)(1 + cos(π t/T))/2), T all steps."""

    name = "cosine"
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Where it ends, as a share of lr."""

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts steps; T itself, where the floor is reached, is one behind the last step."""
        return self.floor + (1 - self.floor) * (1 + cos(pi * step / horizon.steps)) / 2

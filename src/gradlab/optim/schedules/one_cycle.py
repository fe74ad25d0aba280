"""One cycle: up to the full learning rate, then down to almost 0."""

from __future__ import annotations

from math import cos, pi
from typing import Annotated

from pydantic import Field

from gradlab.optim.schedules.base import Horizon, Schedule


class OneCycle(Schedule):
    """Cosine from lr/divide up to lr over the first share of the steps, then down to lr/(divide · final_divide).

    This is PyTorch's OneCycleLR with lr as its max_lr, without cycling the momentum.
    """

    name = "one_cycle"
    called = "one-cycle schedule"
    rise: Annotated[float, Field(gt=0, lt=1)] = 0.3
    divide: Annotated[float, Field(gt=0)] = 25.0
    final_divide: Annotated[float, Field(gt=0)] = 1e4

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts steps; the last step has the lowest rate."""
        start, end = 1 / self.divide, 1 / (self.divide * self.final_divide)
        top, last = self.rise * horizon.steps - 1, horizon.steps - 1
        if step <= top or last <= top:
            return _cosine(start, 1.0, step / top if top > 0 else 1.0)
        return _cosine(1.0, end, (step - top) / (last - top))


def _cosine(a: float, b: float, share: float) -> float:
    return b + (a - b) / 2 * (1 + cos(pi * share))

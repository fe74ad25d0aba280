"""The learning rate of every step, computed once for any engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradlab.optim.schedules.base import Horizon, Schedule


def learning_rates(schedule: Schedule, lr: float, warmup: int, horizon: Horizon) -> NDArray[np.float64]:
    """Return η of each step: lr (t + 1)/warmup during the warm-up, then the schedule over the remaining steps."""
    warm = min(warmup, horizon.steps)
    rest = Horizon(horizon.steps - warm, horizon.steps_per_epoch)
    rates = np.empty(horizon.steps)
    rates[:warm] = lr * np.arange(1, warm + 1) / max(warmup, 1)
    rates[warm:] = [lr * schedule.factor(step, rest) for step in range(rest.steps)]
    return rates

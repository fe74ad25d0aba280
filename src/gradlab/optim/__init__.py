"""Optimizers and schedules: an optimizer is a pure init/update pair, a schedule a function of the step."""

from gradlab.optim.optimizers.base import Optimizer
from gradlab.optim.schedules.base import Horizon, Schedule

__all__ = ["Horizon", "Optimizer", "Schedule"]

"""Optimizers and schedules: an optimizer is a pure init/update pair, a schedule a function of the step."""

from gradlab.optim.optimizers import Optimizer
from gradlab.optim.schedules import Horizon, Schedule

__all__ = ["Horizon", "Optimizer", "Schedule"]

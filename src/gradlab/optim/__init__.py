"""Optimizers and schedules: pure init/update pairs; a schedule is a function of the step."""

from gradlab.optim.optimizers.base import Optimizer
from gradlab.optim.schedules.base import Horizon, Schedule

__all__ = ["Horizon", "Optimizer", "Schedule"]

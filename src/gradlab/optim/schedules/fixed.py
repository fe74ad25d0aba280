"""No schedule."""

from __future__ import annotations

from gradlab.optim.schedules.base import Horizon, Schedule


class Fixed(Schedule):
    """η = lr."""

    name = "fixed"
    called = "fixed rate"

    def factor(self, step: int, horizon: Horizon) -> float:
        """1."""
        return 1.0

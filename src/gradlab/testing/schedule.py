"""What every schedule has to keep."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradlab.optim.schedules.base import Horizon, Schedule
from gradlab.testing.base import Check, check, require


def checks(part: Schedule) -> Iterator[Check]:
    """A finite factor that is not negative, for every step of short and long trials."""

    def finite() -> None:
        for steps, per_epoch in ((1, 1), (2, 1), (10, 3), (500, 16), (1000, 1)):
            for step in range(steps):
                factor = part.factor(step, Horizon(steps, per_epoch))
                require(math.isfinite(factor) and factor >= 0, f"factor({step}) of {steps} steps is {factor}")

    def pure() -> None:
        horizon = Horizon(100, 10)
        first = [part.factor(step, horizon) for step in range(100)]
        again = [part.factor(step, horizon) for step in reversed(range(100))][::-1]
        require(first == again, "the factor depends on the order of calls")

    yield check("finite and not negative", finite)
    yield check("a function of the step alone", pure)

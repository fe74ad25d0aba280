"""What every schedule has to keep."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradlab.optim.schedules.base import Horizon, Schedule
from gradlab.testing.base import Check, check, require
from gradlab.trials.recorder import METRICS


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

    def reacts() -> None:
        first, again = part.reaction(0.1), part.reaction(0.1)
        if first is None or again is None:
            return
        require(first.metric in METRICS, f"it reacts to {first.metric!r}, which is not a metric of an epoch")
        values = [1.0, 0.5, 0.5, math.nan, math.inf, 0.4, *[0.4] * 30]
        found = [first.update(value) for value in values]
        require(all(math.isfinite(factor) and factor >= 0 for factor in found), f"its reactions are {found}")
        require(found == [again.update(value) for value in values], "another trial's reactions are different")

    yield check("finite and not negative", finite)
    yield check("reacts the same in every trial", reacts)
    yield check("a function of the step alone", pure)

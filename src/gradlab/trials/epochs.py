"""What is followed epoch by epoch: the best value of a metric, and when training ends early."""

from __future__ import annotations

from math import isnan

from gradlab.spec.config import EarlyStopping, EpochMetric
from gradlab.spec.metric import infer


class BestSoFar:
    """The best value of a metric and the step after which it was reached. The first of equal values counts."""

    def __init__(self, metric: EpochMetric, min_delta: float = 0.0) -> None:
        self.metric = metric
        self.step: int | None = None
        """None before the first value."""
        self._way = 1 if infer(metric).better == "higher" else -1
        self._value, self._min_delta = 0.0, min_delta

    def update(self, step: int, value: float) -> bool:
        """Take a value; return whether it is the best so far. NaN never is."""
        if isnan(value) or (self.step is not None and (value - self._value) * self._way <= self._min_delta):
            return False
        self.step, self._value = step, value
        return True


class Stopper:
    """Counts epochs without improvement."""

    def __init__(self, rule: EarlyStopping) -> None:
        self._best, self._patience, self._waited = BestSoFar(rule.by, rule.min_delta), rule.patience, 0

    @property
    def metric(self) -> EpochMetric:
        """What it looks at."""
        return self._best.metric

    def update(self, step: int, value: float) -> bool:
        """Take the metric of the epoch that has ended; return whether training ends here."""
        self._waited = 0 if self._best.update(step, value) else self._waited + 1
        return self._waited >= self._patience

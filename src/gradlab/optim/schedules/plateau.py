"""Reduce on plateau: a lower learning rate once a metric has stopped improving."""

from __future__ import annotations

from math import inf
from typing import Annotated, Literal

from pydantic import Field

from gradlab.optim.schedules.base import Horizon, Reaction, Schedule
from gradlab.spec.config import EpochMetric
from gradlab.spec.metric import infer


class Plateau(Schedule):
    """η ← gamma · η after more than `patience` epochs without improvement.

    This is PyTorch's ReduceLROnPlateau, with `gamma` for its factor and `floor` · lr for its min_lr. The metric is
    evaluated after every epoch, whatever `measure.evaluate_every` says.
    """

    name = "plateau"
    by: EpochMetric = "validation_loss"
    gamma: Annotated[float, Field(gt=0, lt=1)] = 0.1
    patience: Annotated[int, Field(ge=0)] = 10
    threshold: Annotated[float, Field(ge=0)] = 1e-4
    """Smaller changes are no improvement."""
    threshold_mode: Literal["rel", "abs"] = "rel"
    """Whether the threshold is a share of the best value, or a difference."""
    cooldown: Annotated[int, Field(ge=0)] = 0
    """Epochs after a reduction in which epochs without improvement are not counted."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The smallest learning rate, as a share of lr."""
    epsilon: Annotated[float, Field(ge=0)] = 1e-8
    """A reduction of the learning rate by no more than this is not made."""

    def factor(self, step: int, horizon: Horizon) -> float:
        """1: before training nothing is reduced."""
        return 1.0

    def reaction(self, lr: float) -> Reaction:
        """Start from the full learning rate."""
        return PlateauReaction(self, lr)


class PlateauReaction(Reaction):
    """Counts epochs without improvement. Equations and order of tests as in PyTorch."""

    def __init__(self, plateau: Plateau, lr: float) -> None:
        self.metric = plateau.by
        self._rule, self._lr, self._rate = plateau, lr, lr
        self._higher = infer(plateau.by).better == "higher"
        self._best = -inf if self._higher else inf
        self._bad = self._cooling = 0

    def update(self, value: float) -> float:
        """Reduce if there were too many epochs without improvement."""
        rule = self._rule
        if self._improves(value):
            self._best, self._bad = value, 0
        else:
            self._bad += 1
        if self._cooling > 0:
            self._cooling -= 1
            self._bad = 0
        if self._bad > rule.patience:
            lower = max(self._rate * rule.gamma, rule.floor * self._lr)
            if self._rate - lower > rule.epsilon:
                self._rate = lower
            self._cooling, self._bad = rule.cooldown, 0
        return self._rate / self._lr

    def _improves(self, value: float) -> bool:
        rule, way = self._rule, 1 if self._higher else -1
        if rule.threshold_mode == "rel":
            return (value - self._best * (1 + way * rule.threshold)) * way > 0
        return (value - (self._best + way * rule.threshold)) * way > 0

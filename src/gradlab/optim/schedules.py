"""Schedules: step -> factor on the learning rate, known beforehand, or reacting to training.

The base class is the manual for writing one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import cos, inf, pi
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.parts import Part
from gradlab.spec.config import EpochMetric
from gradlab.spec.metric import infer

# The base class of schedules: step -> factor on the learning rate, and how a schedule reacts to training.


@dataclass(frozen=True)
class Horizon:
    """The number of steps in total and per epoch."""

    steps: int
    steps_per_epoch: int

    def epoch(self, step: int) -> int:
        """Return the epoch (from 0) of a step (from 0)."""
        return step // self.steps_per_epoch

    def count(self, step: int, per: Literal["epoch", "step"]) -> int:
        """Return the step, or its epoch."""
        return step if per == "step" else self.epoch(step)


class Reaction(ABC):
    """The state of a schedule that reacts to a metric: it is told the metric after every epoch of one trial."""

    metric: EpochMetric
    """What it reacts to."""

    @abstractmethod
    def update(self, value: float) -> float:
        """Take the metric of the epoch that has ended; return the factor on the learning rate from now on.

        The factor multiplies the rates that `Schedule.factor` gave beforehand. The value may be NaN or infinite.
        """


class Schedule(Part):
    """η(step) = lr · factor(step), steps counted from 0. All rates are computed once, before training.

    A schedule that also depends on what training gives returns a `Reaction`.
    """

    part: ClassVar[str] = "schedule"

    @abstractmethod
    def factor(self, step: int, horizon: Horizon) -> float:
        """What multiplies the learning rate in this step: finite, not negative, and the same whenever asked.

        step: from 0, counted after the warm-up. horizon: how many such steps there are, in all and per epoch.
        """

    def reaction(self, lr: float) -> Reaction | None:
        """Return a new state for one trial if the schedule reacts to a metric; None if it does not (the default).

        lr: the trial's learning rate, for limits that are absolute.
        """
        return None


class Fixed(Schedule):
    """η = lr."""

    name = "fixed"
    called = "fixed rate"

    def factor(self, step: int, horizon: Horizon) -> float:
        """1."""
        return 1.0


Per = Literal["epoch", "step"]
"""What a schedule counts."""


class Step(Schedule):
    """η = lr · gamma^⌊t/every⌋."""

    name = "step"
    later = ("per",)
    every: Annotated[int, Field(ge=1)] = 100
    """Epochs (or steps) between drops."""
    gamma: Annotated[float, Field(gt=0)] = 0.5
    per: Per = "epoch"

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts epochs or steps."""
        return self.gamma ** (horizon.count(step, self.per) // self.every)


class Exponential(Schedule):
    """η = lr · gammaᵗ."""

    name = "exponential"
    later = ("per",)
    gamma: Annotated[float, Field(gt=0)] = 0.99
    per: Per = "epoch"

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts epochs or steps."""
        return self.gamma ** horizon.count(step, self.per)


class InverseTime(Schedule):
    """η = lr/(1 + decay · t)."""

    name = "inverse_time"
    called = "1/t decay"
    decay: Annotated[float, Field(ge=0)] = 1e-3
    per: Per = "step"

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts steps or epochs; Keras's old `decay` counts steps."""
        return 1 / (1 + self.decay * horizon.count(step, self.per))


class InverseSqrt(Schedule):
    """η = lr/√(1 + t/scale)."""

    name = "inverse_sqrt"
    called = "1/√t decay"
    scale: Annotated[float, Field(gt=0)] = 1.0
    """Steps (or epochs) after which η is lr/√2. Behind a warm-up of W steps, W gives the Transformer's schedule."""
    per: Per = "step"

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts steps or epochs."""
        return float((1 + horizon.count(step, self.per) / self.scale) ** -0.5)


class Piecewise(Schedule):
    """η = lr · factors[k] from at[k] on; lr before the first."""

    name = "piecewise"
    at: tuple[Annotated[int, Field(ge=0)], ...] = (10, 20)
    """Epochs (or steps), rising."""
    factors: tuple[Annotated[float, Field(ge=0)], ...] = (0.1, 0.01)
    """As many factors on lr itself, not on the rate before."""
    per: Per = "epoch"

    def __post_init__(self) -> None:
        if len(self.at) != len(self.factors) or list(self.at) != sorted(set(self.at)):
            raise ValueError("at needs rising numbers, and factors as many")

    def factor(self, step: int, horizon: Horizon) -> float:
        """The last factor whose time has come."""
        now = horizon.count(step, self.per)
        come = [factor for at, factor in zip(self.at, self.factors, strict=True) if now >= at]
        return float(come[-1]) if come else 1.0


class CosineRestarts(Schedule):
    """Cosine from lr to floor · lr over a period, then again; each period is `multiply` times as long (SGDR)."""

    name = "cosine_restarts"
    called = "cosine with warm restarts"
    period: Annotated[int, Field(ge=1)] = 10
    multiply: Annotated[int, Field(ge=1)] = 1
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The lowest value, as a share of lr."""
    per: Per = "epoch"
    """What `period` counts; the rate changes every step."""

    def factor(self, step: int, horizon: Horizon) -> float:
        """The place in the current period."""
        place = step / (horizon.steps_per_epoch if self.per == "epoch" else 1)
        period = float(self.period)
        while place >= period:
            place, period = place - period, period * self.multiply
        return self.floor + (1 - self.floor) * (1 + cos(pi * place / period)) / 2


class Linear(Schedule):
    """η = lr · (start + (end − start) t/T), T the total number of steps."""

    name = "linear"
    start: Annotated[float, Field(ge=0)] = 1.0
    end: Annotated[float, Field(ge=0)] = 0.0

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts steps."""
        return self.start + (self.end - self.start) * step / horizon.steps


class Cosine(Schedule):
    """η = lr · (floor + (1 − floor)(1 + cos(π t/T))/2), T the total number of steps."""

    name = "cosine"
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Final value, as a share of lr."""

    def factor(self, step: int, horizon: Horizon) -> float:
        """Counts steps; the floor would be reached at T, one after the last step."""
        return self.floor + (1 - self.floor) * (1 + cos(pi * step / horizon.steps)) / 2


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


# The learning rate of every step, computed once for any engine.


def learning_rates(schedule: Schedule, lr: float, warmup: int, horizon: Horizon) -> NDArray[np.float64]:
    """Return η of each step: lr (t + 1)/warmup during the warm-up, then the schedule over the remaining steps."""
    warm = min(warmup, horizon.steps)
    rest = Horizon(horizon.steps - warm, horizon.steps_per_epoch)
    rates = np.empty(horizon.steps)
    rates[:warm] = lr * np.arange(1, warm + 1) / max(warmup, 1)
    rates[warm:] = [lr * schedule.factor(step, rest) for step in range(rest.steps)]
    return rates

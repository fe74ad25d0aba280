"""The base class of optimizers: a pair of pure functions on flat vectors.

    state = init(θ)
    Δ, state = update(g, state, θ, η)          θ ← θ + Δ

`weight_decay` λ applies to every parameter, as in PyTorch: it is added to the gradient (g + λθ), except in AdamW,
which decays the parameters directly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.parts import Part

Array = NDArray[Any]
State = dict[str, Any]
"""Vectors of θ's length, and step counters."""

Decay = Annotated[float, Field(ge=0)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]


class Optimizer(Part):
    """Pure `init` and `update`: neither changes what it is given, and both are deterministic.

    All parameters of the network are one flat vector θ (float32 or float64), whatever the architecture, or those of a
    group of tensors (`train.groups`). An optimizer that reads shapes says so with `by_tensor`.
    """

    part: ClassVar[str] = "optimizer"
    by_tensor: ClassVar[bool] = False
    """Whether it reads shapes: `init` and `update` are then called for every tensor by itself, a weight matrix as
    (fan_in, fan_out), instead of once for one flat vector."""

    def check_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise a `StudyError` if it cannot update tensors of these shapes, by name; nothing unless overridden."""

    @abstractmethod
    def init(self, theta: Array) -> State:
        """The state before the first step: vectors like θ and counters, by any names. Empty if it needs none."""

    @abstractmethod
    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """(Δ, state after this step). The engine then sets θ ← θ + Δ.

        gradient: dL/dθ after clipping, like θ. state: what `init` or the previous step returned; return a new one.
        lr: the learning rate of this step, schedule and warm-up applied. Δ: like θ, in its dtype.
        """


def add_weight_decay(gradient: Array, theta: Array, weight_decay: float) -> Array:
    """Return g + λθ."""
    return gradient + weight_decay * theta if weight_decay else gradient


class Sgd(Optimizer):
    """Δ = −η g."""

    name = "sgd"
    called = "SGD"
    weight_decay: Decay = 0.0

    def init(self, theta: Array) -> State:
        """No state."""
        return {}

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """One gradient step."""
        return -lr * add_weight_decay(gradient, theta, self.weight_decay), state


class Momentum(Optimizer):
    """v ← μ v + g, Δ = −η v."""

    name = "momentum"
    momentum: Rate = 0.9
    weight_decay: Decay = 0.0

    def init(self, theta: Array) -> State:
        """v = 0."""
        return {"v": np.zeros_like(theta)}

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """PyTorch's convention: the learning rate multiplies the velocity, not the gradient inside it."""
        v = self.momentum * state["v"] + add_weight_decay(gradient, theta, self.weight_decay)
        return -lr * v, {"v": v}


class Nesterov(Optimizer):
    """v ← μ v + g, Δ = −η (g + μ v)."""

    name = "nesterov"
    called = "Nesterov momentum"
    momentum: Rate = 0.9
    weight_decay: Decay = 0.0

    def init(self, theta: Array) -> State:
        """v = 0."""
        return {"v": np.zeros_like(theta)}

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """The gradient looks one momentum step ahead (PyTorch's form)."""
        g = add_weight_decay(gradient, theta, self.weight_decay)
        v = self.momentum * state["v"] + g
        return -lr * (g + self.momentum * v), {"v": v}


class RmsProp(Optimizer):
    """s ← α s + (1 − α) g², Δ = −η g/(√s + ε)."""

    name = "rmsprop"
    called = "RMSprop"
    alpha: Rate = 0.99
    epsilon: Positive = 1e-8
    weight_decay: Decay = 0.0

    def init(self, theta: Array) -> State:
        """s = 0."""
        return {"s": np.zeros_like(theta)}

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """Divides each gradient by its running root mean square."""
        g = add_weight_decay(gradient, theta, self.weight_decay)
        s = self.alpha * state["s"] + (1 - self.alpha) * (g * g)
        return -lr * g / (np.sqrt(s) + self.epsilon), {"s": s}


class Adam(Optimizer):
    """m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², Δ = −η m̂/(√v̂ + ε), m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ)."""

    name = "adam"
    called = "Adam"
    beta1: Rate = 0.9
    beta2: Rate = 0.999
    epsilon: Positive = 1e-8
    weight_decay: Decay = 0.0

    def init(self, theta: Array) -> State:
        """m = v = 0, t = 0."""
        return init_adam(theta)

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """Bias-corrected moments."""
        g = add_weight_decay(gradient, theta, self.weight_decay)
        return adam_step(g, state, lr, self.beta1, self.beta2, self.epsilon)


def init_adam(theta: Array) -> State:
    """m = v = 0, t = 0."""
    return {"m": np.zeros_like(theta), "v": np.zeros_like(theta), "t": 0}


def adam_step(g: Array, state: State, lr: float, beta1: float, beta2: float, epsilon: float) -> tuple[Array, State]:
    """The update that Adam and AdamW share, in few passes over memory: η and 1 − β₁ᵗ are one factor."""
    t = state["t"] + 1
    m = beta1 * state["m"]
    m += (1 - beta1) * g
    v = beta2 * state["v"]
    square = g * g
    square *= 1 - beta2
    v += square
    denominator = np.sqrt(v, out=square)
    denominator *= (1 - beta2**t) ** -0.5
    denominator += epsilon
    delta = np.divide(m, denominator, out=denominator)
    delta *= -lr / (1 - beta1**t)
    return delta, {"m": m, "v": v, "t": t}


class AdamW(Optimizer):
    """Adam's Δ on the plain gradient, plus −η λ θ."""

    name = "adamw"
    called = "AdamW"
    beta1: Rate = 0.9
    beta2: Rate = 0.999
    epsilon: Positive = 1e-8
    weight_decay: Decay = 0.01

    def init(self, theta: Array) -> State:
        """m = v = 0, t = 0."""
        return init_adam(theta)

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """Both terms use θ from before the step."""
        delta, state = adam_step(gradient, state, lr, self.beta1, self.beta2, self.epsilon)
        return delta - (lr * self.weight_decay) * theta, state


# Gradient clipping by global norm.


def clip_gradient(gradient: NDArray[Any], largest: float | None) -> NDArray[Any]:
    """Return g · min(1, c/(‖g‖ + 10⁻⁶)), PyTorch's definition; the norm covers all parameters, in float64."""
    if largest is None:
        return gradient
    norm = float(np.linalg.norm(gradient.astype(np.float64)))
    factor = largest / (norm + 1e-6)
    return gradient * factor if not factor >= 1 else gradient

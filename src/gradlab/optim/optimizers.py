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

from gradlab.errors import StudyError
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
    matrices_only: ClassVar[bool] = False
    """Whether biases and gains need another optimizer."""

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


class AmsGrad(Optimizer):
    """Adam with the largest v̂ so far in place of v̂ (Reddi, Kale, Kumar 2018)."""

    name = "amsgrad"
    called = "AMSGrad"
    beta1: Rate = 0.9
    beta2: Rate = 0.999
    epsilon: Positive = 1e-8
    weight_decay: Decay = 0.0

    def init(self, theta: Array) -> State:
        """m = v = max v = 0, t = 0."""
        return {**init_adam(theta), "largest": np.zeros_like(theta)}

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """As in PyTorch, the maximum is taken before the bias correction."""
        g, t = add_weight_decay(gradient, theta, self.weight_decay), state["t"] + 1
        m = self.beta1 * state["m"] + (1 - self.beta1) * g
        v = self.beta2 * state["v"] + (1 - self.beta2) * (g * g)
        largest = np.maximum(state["largest"], v)
        denominator = np.sqrt(largest) * (1 - self.beta2**t) ** -0.5 + self.epsilon
        return (-lr / (1 - self.beta1**t)) * (m / denominator), {"m": m, "v": v, "largest": largest, "t": t}


class NAdam(Optimizer):
    """Adam with Nesterov momentum, μₜ = β₁ (1 − ½ 0.96^(ψ t)) (Dozat 2016)."""

    name = "nadam"
    called = "NAdam"
    beta1: Rate = 0.9
    beta2: Rate = 0.999
    epsilon: Positive = 1e-8
    momentum_decay: Annotated[float, Field(ge=0)] = 4e-3
    """ψ."""
    weight_decay: Decay = 0.0

    def init(self, theta: Array) -> State:
        """m = v = 0, t = 0, the product of all μ is 1."""
        return {**init_adam(theta), "product": 1.0}

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """PyTorch's form."""
        g, t = add_weight_decay(gradient, theta, self.weight_decay), state["t"] + 1
        now, after = (self.beta1 * (1 - 0.5 * 0.96 ** (step * self.momentum_decay)) for step in (t, t + 1))
        product = state["product"] * now
        m = self.beta1 * state["m"] + (1 - self.beta1) * g
        v = self.beta2 * state["v"] + (1 - self.beta2) * (g * g)
        denominator = np.sqrt(v / (1 - self.beta2**t)) + self.epsilon
        ahead = ((1 - now) / (1 - product)) * g + (after / (1 - product * after)) * m
        return -lr * (ahead / denominator), {"m": m, "v": v, "t": t, "product": product}


class Adamax(Optimizer):
    """m as in Adam, u ← max(β₂ u, |g| + ε), Δ = −η m/((1 − β₁ᵗ) u)."""

    name = "adamax"
    called = "Adamax"
    beta1: Rate = 0.9
    beta2: Rate = 0.999
    epsilon: Positive = 1e-8
    weight_decay: Decay = 0.0

    def init(self, theta: Array) -> State:
        """m = u = 0, t = 0."""
        return {"m": np.zeros_like(theta), "u": np.zeros_like(theta), "t": 0}

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """The infinity norm of past gradients."""
        g, t = add_weight_decay(gradient, theta, self.weight_decay), state["t"] + 1
        m = self.beta1 * state["m"] + (1 - self.beta1) * g
        u = np.maximum(self.beta2 * state["u"], np.abs(g) + self.epsilon)
        return (-lr / (1 - self.beta1**t)) * (m / u), {"m": m, "u": u, "t": t}


class Adagrad(Optimizer):
    """s ← s + g², Δ = −η g/(√s + ε)."""

    name = "adagrad"
    called = "Adagrad"
    start: Annotated[float, Field(ge=0)] = 0.0
    """s before the first step."""
    epsilon: Positive = 1e-10
    weight_decay: Decay = 0.0

    def init(self, theta: Array) -> State:
        """s = start."""
        return {"s": np.full_like(theta, self.start)}

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """All gradients so far count alike."""
        g = add_weight_decay(gradient, theta, self.weight_decay)
        s = state["s"] + g * g
        return -lr * g / (np.sqrt(s) + self.epsilon), {"s": s}


class Lion(Optimizer):
    """Δ = −η (sign(β₁ m + (1 − β₁) g) + λ θ), m ← β₂ m + (1 − β₂) g (Chen et al. 2023)."""

    name = "lion"
    called = "Lion"
    beta1: Rate = 0.9
    beta2: Rate = 0.99
    weight_decay: Decay = 0.0
    """Decoupled, as in AdamW."""

    def init(self, theta: Array) -> State:
        """m = 0."""
        return {"m": np.zeros_like(theta)}

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """Every entry moves by η."""
        sign = np.sign(self.beta1 * state["m"] + (1 - self.beta1) * gradient)
        m = self.beta2 * state["m"] + (1 - self.beta2) * gradient
        return -lr * (sign + self.weight_decay * theta if self.weight_decay else sign), {"m": m}


class Muon(Optimizer):
    """v ← μ v + (1 − μ) g, Δ = −η (√max(1, out/in) orthogonal((1 − μ) g + μ v) + λ W), for matrices only.

    Keller Jordan's Muon (2024) with PyTorch's conventions; the orthogonal factor is approximated by Newton–Schulz
    steps. Biases and gains need another optimizer: `train.groups: {biases: {optimizer: adam, lr: 1e-3}}`.
    """

    name = "muon"
    called = "Muon"
    by_tensor = True
    matrices_only = True
    momentum: Rate = 0.95
    iterations: Annotated[int, Field(ge=1, le=50)] = 5
    weight_decay: Decay = 0.0
    """Decoupled, as in AdamW."""

    def check_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Matrices only."""
        others = [name for name, shape in shapes.items() if len(shape) != 2]
        if others:
            raise StudyError(
                f"muon updates matrices, and {others[0]} is none; give the biases an optimizer of their own: "
                "groups: {biases: {optimizer: adam, lr: 1e-3}}",
                where="train.groups.biases",
            )

    def init(self, theta: Array) -> State:
        """v = 0."""
        return {"v": np.zeros_like(theta)}

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """Nesterov momentum, then the nearest matrix whose singular values are about 1."""
        v = self.momentum * state["v"] + (1 - self.momentum) * gradient
        ahead = (1 - self.momentum) * gradient + self.momentum * v
        fan_in, fan_out = theta.shape
        size = max(1.0, fan_out / fan_in) ** 0.5
        delta = size * orthogonalized(ahead, self.iterations)
        return -lr * (delta + self.weight_decay * theta if self.weight_decay else delta), {"v": v}


def orthogonalized(matrix: Array, iterations: int) -> Array:
    """Return about U Vᵀ of the singular value decomposition, by a quintic iteration in the matrix's precision."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / max(float(np.linalg.norm(x)), 1e-7)
    for _ in range(iterations):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    x = x.astype(matrix.dtype)
    return x.T if tall else x


# Gradient clipping by global norm.


def clip_gradient(gradient: NDArray[Any], largest: float | None) -> NDArray[Any]:
    """Return g · min(1, c/(‖g‖ + 10⁻⁶)), PyTorch's definition; the norm covers all parameters, in float64."""
    if largest is None:
        return gradient
    norm = float(np.linalg.norm(gradient.astype(np.float64)))
    factor = largest / (norm + 1e-6)
    return gradient * factor if not factor >= 1 else gradient

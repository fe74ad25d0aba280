"""Adam."""

from __future__ import annotations

import numpy as np

from gradlab.optim.optimizers.base import Array, Decay, Optimizer, Positive, Rate, State, add_weight_decay


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

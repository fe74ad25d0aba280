"""RMSProp."""

from __future__ import annotations

import numpy as np

from gradlab.optim.optimizers.base import Array, Decay, Optimizer, Positive, Rate, State, add_weight_decay


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

"""Gradient descent with Nesterov's momentum."""

from __future__ import annotations

import numpy as np

from gradlab.optim.optimizers.base import Array, Decay, Optimizer, Rate, State, add_weight_decay


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

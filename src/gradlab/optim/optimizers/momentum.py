"""Gradient descent with momentum."""

from __future__ import annotations

import numpy as np

from gradlab.optim.optimizers.base import Array, Decay, Optimizer, Rate, State, add_weight_decay


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

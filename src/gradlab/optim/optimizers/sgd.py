"""Plain gradient descent."""

from __future__ import annotations

from gradlab.optim.optimizers.base import Array, Decay, Optimizer, State, decayed


class Sgd(Optimizer):
    """Δ = −η g."""

    name = "sgd"
    weight_decay: Decay = 0.0

    def init(self, theta: Array) -> State:
        """No memory."""
        return {}

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """One step downhill."""
        return -lr * decayed(gradient, theta, self.weight_decay), state

"""Plain gradient descent."""

from __future__ import annotations

from gradlab.optim.optimizers.base import Array, Decay, Optimizer, State, add_weight_decay


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

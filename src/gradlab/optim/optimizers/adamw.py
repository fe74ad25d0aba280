"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from gradlab.optim.optimizers.adam import adam_step, init_adam
from gradlab.optim.optimizers.base import Array, Decay, Optimizer, Positive, Rate, State


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

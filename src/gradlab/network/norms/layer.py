"""Layer normalization: over the units of each sample."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from gradlab.network.norms.base import Array, Norm, Running


class LayerNorm(Norm):
    """x̂ = (x − mean_h x)/√(var_h x + ε), y = g ⊙ x̂ + s."""

    name = "layer"
    epsilon: Annotated[float, Field(gt=0)] = 1e-5

    def forward(
        self, x: Array, gain: Array, shift: Array, running: Running, training: bool
    ) -> tuple[Array, Any, Running]:
        """The same in training and evaluation."""
        centered = x - x.mean(1, keepdims=True)
        inverse_std = 1 / np.sqrt(np.mean(centered * centered, 1, keepdims=True) + self.epsilon)
        x_hat = centered * inverse_std
        return gain * x_hat + shift, (x_hat, inverse_std), running

    def backward(self, dy: Array, gain: Array, cache: Any) -> tuple[Array, Array | None, Array | None]:
        """dx = (u − mean u − x̂ mean(u x̂))/σ with u = g ⊙ dy, means over the units."""
        x_hat, inverse_std = cache
        u = gain * dy
        dx = inverse_std * (u - u.mean(1, keepdims=True) - x_hat * np.mean(u * x_hat, 1, keepdims=True))
        return dx, np.sum(dy * x_hat, 0), dy.sum(0)

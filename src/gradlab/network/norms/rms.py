"""Root-mean-square normalization: layer norm without the mean and the shift."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from gradlab.network.norms.base import Array, Norm, Running


class RmsNorm(Norm):
    """x̂ = x/√(mean_h x² + ε), y = g ⊙ x̂."""

    name = "rms"
    has_shift = False
    epsilon: Annotated[float, Field(gt=0)] = 1e-5

    def forward(
        self, x: Array, gain: Array, shift: Array, running: Running, training: bool
    ) -> tuple[Array, Any, Running]:
        """The same in training and evaluation."""
        inverse_rms = 1 / np.sqrt(np.mean(x * x, 1, keepdims=True) + self.epsilon)
        x_hat = x * inverse_rms
        return gain * x_hat, (x_hat, inverse_rms), running

    def backward(self, dy: Array, gain: Array, cache: Any) -> tuple[Array, Array | None, Array | None]:
        """dx = (u − x̂ mean(u x̂))/rms with u = g ⊙ dy, the mean over the units."""
        x_hat, inverse_rms = cache
        u = gain * dy
        dx = inverse_rms * (u - x_hat * np.mean(u * x_hat, 1, keepdims=True))
        return dx, np.sum(dy * x_hat, 0), None

"""Root-mean-square normalization: layer norm without the mean and the shift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from gradlab.network.norms.base import Array, Gradients, Norm, Running, gain_of
from gradlab.network.tensors import Tensor


class RmsNorm(Norm):
    """x̂ = x/√(mean_h x² + ε), y = g ⊙ x̂."""

    name = "rms"
    called = "RMS norm"
    epsilon: Annotated[float, Field(gt=0)] = 1e-5

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """g."""
        return {"gain": gain_of(width)}

    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """The same in training and evaluation."""
        inverse_rms = 1 / np.sqrt(np.mean(x * x, 1, keepdims=True) + self.epsilon)
        x_hat = x * inverse_rms
        return p["gain"] * x_hat, (x_hat, inverse_rms), running

    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """dx = (u − x̂ mean(u x̂))/rms with u = g ⊙ dy, the mean over the units."""
        x_hat, inverse_rms = cache
        u = p["gain"] * dy
        dx = inverse_rms * (u - x_hat * np.mean(u * x_hat, 1, keepdims=True))
        return dx, {"gain": np.sum(dy * x_hat, 0)}

"""Layer normalization: over the units of each sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from gradlab.network.norms.base import Array, Gradients, Norm, Running, gain_of, shift_of
from gradlab.network.tensors import Tensor


class LayerNorm(Norm):
    """x̂ = (x − mean_h x)/√(var_h x + ε), y = g ⊙ x̂ + s."""

    name = "layer"
    epsilon: Annotated[float, Field(gt=0)] = 1e-5

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """g and s."""
        return {"gain": gain_of(width), "shift": shift_of(width)}

    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """The same in training and evaluation."""
        centered = x - x.mean(1, keepdims=True)
        inverse_std = 1 / np.sqrt(np.mean(centered * centered, 1, keepdims=True) + self.epsilon)
        x_hat = centered * inverse_std
        return p["gain"] * x_hat + p["shift"], (x_hat, inverse_std), running

    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """dx = (u − mean u − x̂ mean(u x̂))/σ with u = g ⊙ dy, means over the units."""
        x_hat, inverse_std = cache
        u = p["gain"] * dy
        dx = inverse_std * (u - u.mean(1, keepdims=True) - x_hat * np.mean(u * x_hat, 1, keepdims=True))
        return dx, {"gain": np.sum(dy * x_hat, 0), "shift": dy.sum(0)}

"""Batch normalization: over the samples of a batch, with running statistics for evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from gradlab.network.norms.base import Array, Gradients, Norm, Running, gain_of, shift_of
from gradlab.network.tensors import Tensor


class BatchNorm(Norm):
    """x̂ = (x − mean_n x)/√(var_n x + ε), y = g ⊙ x̂ + s; evaluation uses the running mean and variance."""

    name = "batch"
    has_memory = True
    epsilon: Annotated[float, Field(gt=0)] = 1e-5
    momentum: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Weight of the newest batch in the running statistics (torch's definition)."""

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """g and s."""
        return {"gain": gain_of(width), "shift": shift_of(width)}

    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """Training uses the batch's own statistics; the running variance keeps the unbiased one, as in torch."""
        if not training:
            assert running is not None
            mean, variance = running
            return p["gain"] * (x - mean) / np.sqrt(variance + self.epsilon) + p["shift"], None, running
        mean = x.mean(0)
        centered = x - mean
        variance = np.mean(centered * centered, 0)
        inverse_std = 1 / np.sqrt(variance + self.epsilon)
        x_hat = centered * inverse_std
        return p["gain"] * x_hat + p["shift"], (x_hat, inverse_std), self._remembered(running, mean, variance, len(x))

    def _remembered(self, running: Running, mean: Array, variance: Array, n: int) -> Running:
        assert running is not None
        old_mean, old_variance = running
        new_mean = old_mean + self.momentum * (mean - old_mean)
        if n == 1:  # one sample has no variance to remember
            return new_mean, old_variance
        return new_mean, old_variance + self.momentum * (variance * (n / (n - 1)) - old_variance)

    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """dx = (u − mean u − x̂ mean(u x̂))/σ with u = g ⊙ dy, means over the batch."""
        x_hat, inverse_std = cache
        u = p["gain"] * dy
        dx = inverse_std * (u - u.mean(0) - x_hat * np.mean(u * x_hat, 0))
        return dx, {"gain": np.sum(dy * x_hat, 0), "shift": dy.sum(0)}

"""Dynamic tanh: squashes every unit by itself, without any statistics, in place of a norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradlab.network.norms.base import Array, Gradients, Norm, Running, gain_of, shift_of
from gradlab.network.tensors import Tensor


class DynamicTanh(Norm):
    """y = g ⊙ tanh(α x) + s, one learned α per layer (DyT; Zhu, Chen, He, LeCun, Liu 2025)."""

    name = "dynamic_tanh"
    called = "dynamic tanh"
    start: float = 0.5
    """Where α starts."""

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """α, g and s."""
        alpha = Tensor((), self.start, "norm scales")
        return {"alpha": alpha, "gain": gain_of(width), "shift": shift_of(width)}

    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """The same in training and evaluation."""
        t = np.tanh(p["alpha"] * x)
        return p["gain"] * t + p["shift"], (x, t), running

    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """dx = α u with u = g ⊙ dy ⊙ (1 − tanh²), dα = ⟨u, x⟩, dg = Σ dy ⊙ tanh, ds = Σ dy."""
        x, t = cache
        u = p["gain"] * dy * (1 - t * t)
        return p["alpha"] * u, {"alpha": np.vdot(u, x), "gain": np.sum(dy * t, 0), "shift": np.sum(dy, 0)}

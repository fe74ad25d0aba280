"""Rectified linear unit."""

from __future__ import annotations

import numpy as np

from gradlab.network.activations.base import Activation, Array


class Relu(Activation):
    """f(x) = max(x, 0)."""

    name = "relu"
    called = "ReLU"

    def forward(self, x: Array) -> Array:
        """max(x, 0); `maximum` keeps NaN, which `where(x > 0, x, 0)` would hide."""
        return np.maximum(x, 0)

    def slope(self, x: Array, y: Array) -> Array:
        """1 where x > 0, else 0 (0 at the kink, as in torch)."""
        return (x > 0).astype(x.dtype)

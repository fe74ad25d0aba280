"""Leaky rectified linear unit."""

from __future__ import annotations

import numpy as np

from gradlab.network.activations.base import Activation, Array


class LeakyRelu(Activation):
    """f(x) = x for x > 0, else negative_slope · x."""

    name = "leaky_relu"
    called = "leaky ReLU"
    negative_slope: float = 0.01

    def forward(self, x: Array) -> Array:
        """Both branches are linear in x, so NaN stays NaN."""
        return x * self.slope(x, x)

    def slope(self, x: Array, y: Array) -> Array:
        """1 or negative_slope (the latter at the kink, as in torch)."""
        return np.where(x > 0, x.dtype.type(1), x.dtype.type(self.negative_slope))

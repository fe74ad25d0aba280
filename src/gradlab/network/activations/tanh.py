"""Hyperbolic tangent."""

from __future__ import annotations

import numpy as np

from gradlab.network.activations.base import Activation, Array


class Tanh(Activation):
    """f(x) = tanh x."""

    name = "tanh"

    def forward(self, x: Array) -> Array:
        """Tanh x."""
        return np.tanh(x)

    def slope(self, x: Array, y: Array) -> Array:
        """1 − y²."""
        return 1 - y * y

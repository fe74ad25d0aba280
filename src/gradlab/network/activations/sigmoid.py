"""Logistic sigmoid."""

from __future__ import annotations

from gradlab.network.activations.base import Activation, Array


class Sigmoid(Activation):
    """f(x) = σ(x) = 1/(1 + e⁻ˣ)."""

    name = "sigmoid"

    def forward(self, x: Array) -> Array:
        """σ(x), without overflow for large |x|."""
        from scipy.special import expit

        y: Array = expit(x)
        return y

    def slope(self, x: Array, y: Array) -> Array:
        """y (1 − y)."""
        return y * (1 - y)

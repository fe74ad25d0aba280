"""Sigmoid linear unit, also called swish."""

from __future__ import annotations

from gradlab.network.activations.base import Activation, Array


class Silu(Activation):
    """f(x) = x σ(x)."""

    name = "silu"
    called = "SiLU"

    def forward(self, x: Array) -> Array:
        """x σ(x)."""
        return x * _sigmoid(x)

    def slope(self, x: Array, y: Array) -> Array:
        """σ(x) + x σ(x)(1 − σ(x)) = s + y (1 − s)."""
        s = _sigmoid(x)
        return s + y * (1 - s)


def _sigmoid(x: Array) -> Array:
    from scipy.special import expit

    s: Array = expit(x)
    return s

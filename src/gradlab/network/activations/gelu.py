"""Gaussian error linear unit, the exact one."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from gradlab.network.activations.base import Activation, Array


class Gelu(Activation):
    """f(x) = x Φ(x), Φ the normal distribution function."""

    name = "gelu"
    called = "GELU"

    def forward(self, x: Array) -> Array:
        """x Φ(x)."""
        return x * _normal_cdf(x)

    def slope(self, x: Array, y: Array) -> Array:
        """Φ(x) + x φ(x), φ the normal density."""
        return _normal_cdf(x) + x * np.exp(-0.5 * x * x) / x.dtype.type(sqrt(2 * pi))


def _normal_cdf(x: Array) -> Array:
    from scipy.special import ndtr

    phi: Array = ndtr(x)
    return phi

"""Gaussian error linear unit, its tanh approximation (PyTorch's `approximate="tanh"`, GPT-2's GELU)."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from gradlab.network.activations.base import Activation, Array

ROOT, CUBE = sqrt(2 / pi), 0.044715


class GeluTanh(Activation):
    """f(x) = x (1 + tanh u)/2, u = √(2/π) (x + 0.044715 x³)."""

    name = "gelu_tanh"

    def forward(self, x: Array) -> Array:
        """x (1 + tanh u)/2."""
        return 0.5 * x * (1 + _tanh(x))

    def slope(self, x: Array, y: Array) -> Array:
        """(1 + t)/2 + x (1 − t²) u'/2 with t = tanh u, u' = √(2/π) (1 + 3 · 0.044715 x²)."""
        t = _tanh(x)
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (ROOT * (1 + 3 * CUBE * x * x))


def _tanh(x: Array) -> Array:
    return np.tanh(ROOT * (x + CUBE * x * x * x))

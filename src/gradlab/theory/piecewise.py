"""Closed forms for f(x) = x above 0 and a x below: ReLU (a = 0), leaky ReLU, the identity (a = 1).

With f = a z + (1 − a) relu(z), everything is the arc-cosine kernels of order 0, 1 and 2 (Cho & Saul 2009). At
variance 1 and correlation c = cos θ:

    E 1[u>0] 1[v>0]       = (π − θ)/2π
    E relu(u) relu(v)     = (sin θ + (π − θ) cos θ)/2π
    E relu(u)² relu(v)²   = (3 sin θ cos θ + (π − θ)(1 + 2 cos² θ))/2π
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class PiecewiseLinear:
    """Slope 1 above 0, slope `a` below. All of it at variance 1; f is homogeneous, so other variances only scale it."""

    a: float

    def mean(self, q: Array) -> Array:
        """E f(√q ζ)."""
        return np.asarray((1 - self.a) * np.sqrt(np.maximum(q, 0) / (2 * pi)))

    @property
    def v(self) -> float:
        """E f²."""
        return (1 + self.a**2) / 2

    @property
    def product(self) -> float:
        """E f'² f²."""
        return (1 + self.a**4) / 2

    @property
    def product1(self) -> float:
        """E f'² f."""
        return (1 - self.a**3) / sqrt(2 * pi)

    @property
    def square_order_1(self) -> float:
        """E f² ζ."""
        return (1 - self.a**2) * sqrt(2 / pi)

    @property
    def square_order_2(self) -> float:
        """E f² (ζ² − 1)/√2."""
        return (1 + self.a**2) / sqrt(2)

    @property
    def order_1(self) -> float:
        """E f ζ."""
        return (1 + self.a) / 2

    @property
    def order_2(self) -> float:
        """E f (ζ² − 1)/√2."""
        return (1 - self.a) / sqrt(4 * pi)

    @property
    def slope_order_1(self) -> float:
        """E f'² ζ; that of order 2 is 0."""
        return (1 - self.a**2) / sqrt(2 * pi)

    def at(self, c: Array) -> Pairs:
        """What two samples with this correlation have in common."""
        turn, sine = (pi - np.arccos(c)) / (2 * pi), np.sqrt(1 - c * c) / (2 * pi)
        square, a = c * c, self.a
        b, root = a**2, sqrt(2 * pi)
        both = (1 - b) ** 2
        cube = a * (1 - b) * 2 * c / root + (1 - a) * b * (1 + square) / root
        cube = cube + (1 - a) * (1 - b) * (1 + c) ** 2 / (2 * root)
        return Pairs(
            second=a * c + (1 - a) ** 2 * (sine + turn * c),
            slope=a + (1 - a) ** 2 * turn,
            square=b * (1 + 2 * square) + both * (3 * sine * c + turn * (1 + 2 * square)) - self.v**2,
            slope2=b + both * turn,
            mixed=both * (turn + sine * c - 0.25),
            cube=cube - (1 - a) / root * self.v,
        )


@dataclass(frozen=True)
class Pairs:
    """Expectations over two samples at variance 1."""

    second: Array
    """E f(u) f(v)."""
    slope: Array
    """E f'(u) f'(v)."""
    square: Array
    """Cov(f(u)², f(v)²)."""
    slope2: Array
    """E f'(u)² f'(v)²."""
    mixed: Array
    """Cov(f(u)², f'(v)²): only the half lines differ, E relu(u)² 1[v>0] = (π − θ + sin θ cos θ)/2π."""
    cube: Array
    """Cov(f(u), f(v)²): E relu(u) v² = (1 + c²)/√2π, E u relu(v)² = 2c/√2π, E relu(u) relu(v)² = (1 + c)²/(2√2π)."""

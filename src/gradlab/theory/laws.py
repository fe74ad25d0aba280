"""Integrals against the standard normal density, by Gauss–Legendre panels that meet at 0.

    E g(ζ) = ∫ g(t) φ(t) dt ≈ Σ_t w_t g(ζ_t)

The panels shrink towards 0. So a kink at 0 (ReLU) costs nothing, and neither does a saturated tanh, whose whole change
happens in |ζ| < 1/√q.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.activations import Activation, Identity, LeakyRelu, Relu

Array = NDArray[Any]
EDGES = (0.0, 1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 10.0)
"""Where panels meet, mirrored for negative numbers; beyond 10 the density is below 1e-22."""
PER_PANEL = 14
ORDERS = 48
"""Hermite coefficients that carry the overlap of two samples."""


@lru_cache(maxsize=1)
def nodes() -> tuple[Array, Array]:
    """(ζ, w): nodes and weights with Σ w g(ζ) = E g(ζ)."""
    t, w = np.polynomial.legendre.leggauss(PER_PANEL)
    left, right = np.array(EDGES[:-1])[:, None], np.array(EDGES[1:])[:, None]
    places = ((left + right) / 2 + (right - left) / 2 * t).ravel()
    weights = ((right - left) / 2 * w).ravel()
    places, weights = np.concatenate([-places[::-1], places]), np.concatenate([weights[::-1], weights])
    weights = weights * np.exp(-0.5 * places**2) / np.sqrt(2 * np.pi)
    return places, weights / weights.sum()


@lru_cache(maxsize=1)
def hermite() -> Array:
    """w_t he_k(ζ_t), (nodes, ORDERS): a row of g(ζ_t) times it gives the coefficients of g.

    he_k are the Hermite polynomials with E he_j he_k = 1 for j = k, else 0.
    """
    places, weights = nodes()
    columns = [np.ones_like(places), places]
    for k in range(1, ORDERS - 1):
        columns.append((places * columns[-1] - np.sqrt(k) * columns[-2]) / np.sqrt(k + 1))
    return np.stack(columns, 1) * weights[:, None]


def expectation(values: Array) -> Array:
    """E of g from its values at the nodes, over the last axis."""
    return np.asarray(values @ nodes()[1])


# What an activation does to Gaussian numbers: the expectations that every recursion is made of.
#
# Let z_a be what a unit receives for sample a, Gaussian with covariance K (S × S). A `Law` holds, for pairs of samples,
#
#     mean_a        M = E f(z_a)
#     second_ab     C = E f(z_a) f(z_b)           its diagonal is V
#     slope_ab      E f'(z_a) f'(z_b)             its diagonal is D
#     square_ab     Cov(f(z_a)², f(z_b)²)         spread of the signal over draws of the weights, at finite width
#     slope2_ab     E f'(z_a)² f'(z_b)²           spread of δ
#     mixed_ab      Cov(f(z_a)², f'(z_b)²)        both at once
#
# and how V and D, averaged over the samples, change with the variance. Two straight lines have closed forms;
# everything else goes through Hermite coefficients: with f(√q ζ) = Σ α_k(q) he_k(ζ) and a correlation c of two samples,
# E f(z_a) f(z_b) = Σ c^k α_k(q_a) α_k(q_b).

SMALLEST = 1e-300
NEGLIGIBLE = 1e-10
"""Share of a function's variance that its last Hermite orders may hold without being carried."""


@dataclass(frozen=True)
class Elementwise:
    """An activation as a function, behind tanh(α x) where a dynamic tanh stands in front of it."""

    activation: Activation
    squash: float | None = None

    def value(self, x: Array) -> Array:
        """f(x)."""
        return self.activation.forward(x if self.squash is None else np.tanh(self.squash * x))

    def slope(self, x: Array) -> Array:
        """f'(x)."""
        inner = x if self.squash is None else np.tanh(self.squash * x)
        slope = self.activation.slope(inner, self.activation.forward(inner))
        return np.asarray(slope if self.squash is None else slope * self.squash * (1 - inner * inner))

    @property
    def negative_slope(self) -> float | None:
        """The slope below 0 of a function that is x above 0 and linear below; None for any other."""
        if self.squash is not None:
            return None
        if type(self.activation) is LeakyRelu:
            return self.activation.negative_slope
        return {Relu: 0.0, Identity: 1.0}.get(type(self.activation))


@dataclass(frozen=True)
class Law:
    """Expectations over Gaussian numbers with a covariance, see above; S samples."""

    mean: Array
    second: Array
    slope: Array
    square: Array
    slope2: Array
    mixed: Array
    cube: Array
    """Cov(f(z_a), f(z_b)²)."""
    growth: float
    """d ln V / d ln q."""
    growth2: float
    """d² ln V / d (ln q)²."""
    slope_growth: float
    """d ln D / d ln q."""
    slope_growth2: float
    """d² ln D / d (ln q)²."""
    inner: Array
    """E z f'(z), (S,)."""
    inner2: Array
    """E z f'(z) f(z), (S,)."""
    product: Array
    """E f'(z)² f(z)², (S,)."""
    product1: Array
    """E f'(z)² f(z), (S,)."""
    square_orders: tuple[Array, Array]
    """Hermite coefficients of f² of order 1 and 2, (S,) each: what a norm or an orthogonal matrix takes away."""
    slope_orders: tuple[Array, Array]
    """The same of f'²."""
    orders: tuple[Array, Array]
    """The same of f."""
    inner_square: Array
    """E z² f'(z)², (S,)."""
    bend: float | None = None
    """Change of Var f²/V² per excess kurtosis of z, by the fourth order of an Edgeworth series; None if f is piecewise
    linear, where it is E f'⁴ q²/V²."""
    fourths: tuple[float, float] = (0.0, 0.0)
    """Relative change of V and D per excess kurtosis of z; 0 if f is piecewise linear."""


def law_of(function: Elementwise, covariance: Array, c: Array | None = None) -> Law:
    """The law of a function at this covariance (and its correlation c): in closed form, else by quadrature."""
    c = correlation(covariance) if c is None else c
    if (below := function.negative_slope) is not None:
        return _closed(below, covariance, c)
    return _by_quadrature(function, covariance.tobytes())


@lru_cache(maxsize=512)
def _by_quadrature(function: Elementwise, key: bytes) -> Law:
    """The law at the covariance with these bytes. Networks of several depths share their first layers."""
    flat = np.frombuffer(key)
    covariance = flat.reshape(isqrt(len(flat)), -1)
    q, c = covariance.diagonal(), correlation(covariance)
    places, _ = nodes()
    x = np.sqrt(np.maximum(q, 0))[:, None] * places
    f, s = function.value(x), function.slope(x)
    square, slope_square = f * f, s * s
    basis = hermite()
    every = np.stack([f, s, square, slope_square, square * square]) @ basis
    orders = _needed(every[:4])
    of_f, of_s, of_f2, of_s2 = every[:4, :, :orders]
    powers = _powers(c, orders)
    both = square * slope_square
    mean, v, d, f4 = of_f[:, 0], of_f2[:, 0], of_s2[:, 0], every[4, :, 0]
    s4, product = expectation(slope_square * slope_square), expectation(both)
    growths = [_growth(coefficients) for coefficients in (of_f2, of_s2)]
    return Law(
        mean,
        _pairs(of_f, of_f, powers, v),
        _pairs(of_s, of_s, powers, d),
        _pairs(of_f2, of_f2, powers, f4, first=1, less=of_f2[:, 0] ** 2),
        _pairs(of_s2, of_s2, powers, s4),
        _with_diagonal(_pairs(of_f2, of_s2, powers, None, first=1), product - v * d),
        _with_diagonal(_pairs(of_f, of_f2, powers, None, first=1), expectation(f * square) - mean * v),
        *growths[0],
        *growths[1],
        expectation(x * s),
        expectation(x * s * f),
        product,
        expectation(slope_square * f),
        (of_f2[:, 1], of_f2[:, 2]),
        (of_s2[:, 1], of_s2[:, 2]),
        (of_f[:, 1], of_f[:, 2]),
        expectation((x * s) ** 2),
        _bend(every[4, :, 4], of_f2[:, 4], v),
        (_fourth(of_f2), _fourth(of_s2)),
    )


def _fourth(coefficients: Array) -> float:
    """E of the fourth derivative over 4!, relative: the change of the mean with the excess kurtosis of z."""
    return float(np.mean(coefficients[:, 4])) / max(float(np.mean(coefficients[:, 0])), SMALLEST) / 24**0.5


def _bend(of_f4: Array, of_f2: Array, v: Array) -> float:
    """E of the fourth derivative of f⁴, less 2 V times that of f², over 4!: from Hermite coefficients of order 4."""
    level = np.maximum(v, 1e-300)
    return float(np.mean((of_f4 - 2 * level * of_f2) / level**2)) / 24**0.5


# Closed forms for f(x) = x above 0 and a x below: ReLU (a = 0), leaky ReLU, the identity (a = 1).
#
# With f = a z + (1 − a) relu(z), everything is the arc-cosine kernels of order 0, 1 and 2 (Cho & Saul 2009). At
# variance 1 and correlation c = cos θ:
#
#     E 1[u>0] 1[v>0]       = (π − θ)/2π
#     E relu(u) relu(v)     = (sin θ + (π − θ) cos θ)/2π
#     E relu(u)² relu(v)²   = (3 sin θ cos θ + (π − θ)(1 + 2 cos² θ))/2π
#     E relu(u)² 1[v>0]     = (π − θ + sin θ cos θ)/2π
#     E relu(u) v² = (1 + c²)/√2π,   E u relu(v)² = 2c/√2π,   E relu(u) relu(v)² = (1 + c)²/(2√2π)
#
# f is homogeneous, so that other variances only scale it.


def _closed(a: float, covariance: Array, c: Array) -> Law:
    """The law of the function with slope 1 above 0 and slope a below."""
    q = covariance.diagonal()
    size = np.sqrt(q)
    scale = size[:, None] * size
    has_signal = np.where(q > 0, 1.0, 0.0)
    turn, sine = (pi - np.arccos(c)) / (2 * pi), np.sqrt(1 - c * c) / (2 * pi)
    square, b, root = c * c, a**2, sqrt(2 * pi)
    v, both = (1 + b) / 2, (1 - b) ** 2
    cube = a * (1 - b) * 2 * c / root + (1 - a) * b * (1 + square) / root
    cube = cube + (1 - a) * (1 - b) * (1 + c) ** 2 / (2 * root)
    squares = b * (1 + 2 * square) + both * (3 * sine * c + turn * (1 + 2 * square)) - v**2
    mean = np.asarray((1 - a) * np.sqrt(np.maximum(q, 0) / (2 * pi)))
    return Law(
        mean=mean,
        second=(a * c + (1 - a) ** 2 * (sine + turn * c)) * scale,
        slope=a + (1 - a) ** 2 * turn,
        square=squares * scale**2,
        slope2=b + both * turn,
        mixed=both * (turn + sine * c - 0.25) * q[:, None] * has_signal,
        cube=(cube - (1 - a) / root * v) * size[:, None] * q,
        growth=1.0,
        growth2=0.0,
        slope_growth=0.0,
        slope_growth2=0.0,
        inner=mean,
        inner2=v * q,
        product=(1 + a**4) / 2 * q,
        product1=(1 - a**3) / root * size,
        square_orders=((1 - a**2) * sqrt(2 / pi) * q, (1 + a**2) / sqrt(2) * q),
        slope_orders=((1 - a**2) / root * has_signal, 0 * has_signal),
        orders=((1 + a) / 2 * size, (1 - a) / sqrt(4 * pi) * size),
        inner_square=v * q,
    )


def correlation(covariance: Array) -> Array:
    """K_ab/√(K_aa K_bb), at most 1; 0 where a variance is 0."""
    own = covariance.diagonal()
    inverse = 1 / np.sqrt(np.maximum(own, SMALLEST))
    c = covariance * inverse[:, None]
    c *= inverse
    np.minimum(c, 1.0, out=c)
    np.maximum(c, -1.0, out=c)
    c.flat[:: len(c) + 1] = own > 0
    return np.asarray(c)


def overlap_of(second: Array) -> float:
    """Mean correlation of two different samples, about 0 and not about their mean, from their second moments."""
    c, size = correlation(second), len(second)
    return float((c.sum() - c.trace()) / (size * (size - 1))) if size > 1 else 1.0


def _needed(coefficients: Array) -> int:
    """How many Hermite orders hold all but a negligible share of every function."""
    energy = np.sum(coefficients**2, axis=1)
    tail = np.cumsum(energy[:, ::-1], axis=1)[:, ::-1]
    left = np.max(tail / np.maximum(tail[:, :1], SMALLEST), axis=0)
    return min(max(int(np.count_nonzero(left > NEGLIGIBLE)) + 1, 6), ORDERS)


def _powers(c: Array, orders: int) -> Array:
    """c^k for k = 0 … orders, (orders + 1, S, S)."""
    out = np.empty((orders + 1, *c.shape))
    out[0] = 1.0
    for k in range(1, orders + 1):
        np.multiply(out[k - 1], c, out=out[k])
    return out


def _pairs(
    left: Array, right: Array, powers: Array, diagonal: Array | None, *, first: int = 0, less: Array | None = None
) -> Array:
    """Σ_{k ≥ first} c^k l_k r_k; what the orders leave out of the diagonal stands at the next power of c."""
    orders = left.shape[1]
    scaled = powers[first:orders] * left.T[first:, :, None]
    total = np.asarray(np.einsum("kab,kb->ab", scaled, right.T[first:]))
    if diagonal is None:
        return total
    exact = diagonal if less is None else diagonal - less
    rest = np.sqrt(np.maximum(exact - np.sum(left[:, first:] * right[:, first:], 1), 0))
    return _with_diagonal(total + np.outer(rest, rest) * powers[orders], exact)


def _with_diagonal(matrix: Array, diagonal: Array) -> Array:
    out: Array = matrix.copy()
    out.flat[:: len(out) + 1] = diagonal
    return out


def _growth(coefficients: Array) -> tuple[float, float]:
    """(d ln E/d ln q, d² ln E/d(ln q)²) of E g(√q ζ), averaged over samples, from the coefficients of g.

    q ∂E/∂q = ½ E g He₂ and q² ∂²E/∂q² = ¼ E g He₄, with He₂ = √2 he₂ and He₄ = √24 he₄.
    """
    level = float(np.mean(coefficients[:, 0]))
    if level <= 0:
        return 0.0, 0.0
    first = float(np.mean(coefficients[:, 2])) * np.sqrt(2) / 2 / level
    second = float(np.mean(coefficients[:, 4])) * np.sqrt(24) / 4 / level
    return float(first), float(second + first - first * first)

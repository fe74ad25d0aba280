"""Activations and skips that no tile applies: one loop each.

post = f(pre)          d_pre = d_post · f'(pre)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from gradlab.engines.fused.kernels.compiled import kernel
from gradlab.engines.fused.kernels.supported import GELU, GELU_TANH, IDENTITY, LEAKY_RELU, RELU, SIGMOID, TANH

_ROOT_HALF, _INVERSE_ROOT_2PI = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)
_ROOT_2_OVER_PI, _CUBE = math.sqrt(2 / math.pi), 0.044715


# tanh x ≈ x P(x²)/Q(x²) for |x| ≤ 9: rational least squares on relative error, 1.3e-9 before rounding to float32;
# with the rounding of every operation at most 6.4 ulp and 3.8e-7 from tanh x (a third of all float32 from 2⁻³⁰ to 12)
P5, P4, P3, P2, P1, P0 = (
    np.float32(c)
    for c in (
        -1.2244462e-11,
        3.0640452608e-8,
        2.80305785067e-5,
        3.869475907263e-3,
        0.136808319916527,
        0.999999998754826,
    )
)
Q4, Q3, Q2, Q1, Q0 = (
    np.float32(c) for c in (1.28897960676e-6, 3.940653738215e-4, 2.72500429207906e-2, 0.470141640984789, 1.0)
)


def tanh(x: Any) -> Any:
    """tanh x: in float32 by arithmetic only, so that the loop around it is vectorized; in float64 by the library."""


@overload(tanh)
def _tanh(x):
    if x != types.float32:
        return lambda x: math.tanh(x)

    def by_arithmetic(x):
        nine, one = np.float32(9), np.float32(1)
        y = nine if x > nine else x
        y = -nine if y < -nine else y  # both keep NaN
        t = y * y
        p = ((((P5 * t + P4) * t + P3) * t + P2) * t + P1) * t + P0
        q = (((Q4 * t + Q3) * t + Q2) * t + Q1) * t + Q0
        r = y * p / q
        r = one if r > one else r
        return -one if r < -one else r

    return by_arithmetic


@kernel
def sigmoid(x):
    """1/(1 + e⁻ˣ) without overflow."""
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    e = math.exp(x)
    return e / (1 + e)


@kernel
def activate(kind, slope, pre, post, size):
    """Post = f(pre), elementwise over `size` numbers."""
    if kind == IDENTITY:
        for i in range(size):
            post[i] = pre[i]
    elif kind == RELU:
        for i in range(size):
            post[i] = np.float32(0) if pre[i] < 0 else pre[i]
    elif kind == LEAKY_RELU:
        for i in range(size):
            post[i] = pre[i] if pre[i] > 0 else pre[i] * slope
    elif kind == TANH:
        for i in range(size):
            post[i] = tanh(pre[i])
    elif kind == SIGMOID:
        for i in range(size):
            post[i] = sigmoid(pre[i])
    elif kind == GELU:
        for i in range(size):
            post[i] = pre[i] * (0.5 * math.erfc(-pre[i] * _ROOT_HALF))
    elif kind == GELU_TANH:
        for i in range(size):
            x = pre[i]
            post[i] = 0.5 * x * (1 + math.tanh(_ROOT_2_OVER_PI * (x + _CUBE * x * x * x)))
    else:
        for i in range(size):
            post[i] = pre[i] * sigmoid(pre[i])


@kernel
def slope_times(kind, slope, pre, post, dy, dx, size):
    """dx = dy · f'(pre), elementwise."""
    if kind == IDENTITY:
        for i in range(size):
            dx[i] = dy[i]
    elif kind == RELU:
        for i in range(size):
            dx[i] = dy[i] if pre[i] > 0 else np.float32(0)
    elif kind == LEAKY_RELU:
        for i in range(size):
            dx[i] = dy[i] if pre[i] > 0 else dy[i] * slope
    elif kind == TANH:
        for i in range(size):
            dx[i] = dy[i] * (1 - post[i] * post[i])
    elif kind == SIGMOID:
        for i in range(size):
            dx[i] = dy[i] * (post[i] * (1 - post[i]))
    elif kind == GELU:
        for i in range(size):
            x = pre[i]
            dx[i] = dy[i] * (0.5 * math.erfc(-x * _ROOT_HALF) + x * math.exp(-0.5 * x * x) * _INVERSE_ROOT_2PI)
    elif kind == GELU_TANH:
        for i in range(size):
            x = pre[i]
            t = math.tanh(_ROOT_2_OVER_PI * (x + _CUBE * x * x * x))
            inner_slope = _ROOT_2_OVER_PI * (1 + 3 * _CUBE * x * x)
            dx[i] = dy[i] * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner_slope)
    else:
        for i in range(size):
            s = sigmoid(pre[i])
            dx[i] = dy[i] * (s + post[i] * (1 - s))


@kernel
def add_scaled(x, branch, alpha, y, size):
    """y = x + α · branch."""
    if alpha == 1:
        for i in range(size):
            y[i] = x[i] + branch[i]
    else:
        for i in range(size):
            y[i] = x[i] + alpha * branch[i]


@kernel
def add_to(y, x, size):
    """y ← y + x. One pointer for reading and writing: with two equal pointers it would not be vectorized."""
    for i in range(size):
        y[i] += x[i]


@kernel
def scale(y, alpha, size):
    """y ← α · y."""
    for i in range(size):
        y[i] *= alpha


@kernel
def scale_into(x, alpha, y, size):
    """y = α · x."""
    for i in range(size):
        y[i] = alpha * x[i]


@kernel
def inner(x, y, size):
    """⟨x, y⟩, summed in float64."""
    total = 0.0
    for i in range(size):
        total += np.float64(x[i]) * np.float64(y[i])
    return total

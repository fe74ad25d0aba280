"""Activations and skips where no tile finishes them: one loop each.

post = f(pre)          d_pre = d_post · f'(pre)
"""

from __future__ import annotations

import math

import numpy as np

from gradlab.engines.kernels.compiled import kernel

IDENTITY, RELU, LEAKY_RELU, TANH, SIGMOID, GELU, SILU = range(7)
_ROOT_HALF, _INVERSE_ROOT_2PI = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)


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
            post[i] = math.tanh(pre[i])
    elif kind == SIGMOID:
        for i in range(size):
            post[i] = sigmoid(pre[i])
    elif kind == GELU:
        for i in range(size):
            post[i] = pre[i] * (0.5 * math.erfc(-pre[i] * _ROOT_HALF))
    else:
        for i in range(size):
            post[i] = pre[i] * sigmoid(pre[i])


@kernel
def slope_times(kind, slope, pre, post, dy, dx, size):
    """dx = dy · f'(pre), elementwise; dx may be dy."""
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
def scaled(x, alpha, y, size):
    """y = α · x; y may be x."""
    for i in range(size):
        y[i] = alpha * x[i]


@kernel
def inner(x, y, size):
    """⟨x, y⟩, summed in float64."""
    total = 0.0
    for i in range(size):
        total += np.float64(x[i]) * np.float64(y[i])
    return total

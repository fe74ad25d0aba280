"""The loops beside the products: activations, skips, norms, losses, and gathering a batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from gradlab.engines.fused.kernels.compiled import kernel, window
from gradlab.engines.fused.kernels.supported import (
    BATCH,
    CROSS_ENTROPY,
    ELU,
    GELU,
    GELU_TANH,
    HARD_TANH,
    IDENTITY,
    LAYER,
    LEAKY_RELU,
    MISH,
    NONE,
    RELU,
    RMS,
    SELU,
    SIGMOID,
    SOFTPLUS,
    SOFTSIGN,
    SQUARE,
    TANH,
)
from gradlab.network.activations import SELU_ALPHA, SELU_SCALE

# Activations and skips that no tile applies: one loop each.
#
# post = f(pre)          d_pre = d_post · f'(pre)

_ROOT_HALF, _INVERSE_ROOT_2PI = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)
SELU_LIMIT = SELU_SCALE * SELU_ALPHA
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
def softplus(x):
    """ln(1 + eˣ) without overflow."""
    return (x if x > 0 else np.float32(0)) + math.log1p(math.exp(-abs(x)))


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
    elif kind == HARD_TANH:
        for i in range(size):
            post[i] = np.float32(1) if pre[i] > 1 else np.float32(-1) if pre[i] < -1 else pre[i]
    elif kind == SOFTSIGN:
        for i in range(size):
            post[i] = pre[i] / (1 + abs(pre[i]))
    elif kind == ELU:
        for i in range(size):
            post[i] = pre[i] if pre[i] > 0 else slope * math.expm1(pre[i])
    elif kind == SELU:
        for i in range(size):
            post[i] = SELU_SCALE * pre[i] if pre[i] > 0 else SELU_LIMIT * math.expm1(pre[i])
    elif kind == SOFTPLUS:
        for i in range(size):
            post[i] = softplus(pre[i])
    elif kind == MISH:
        for i in range(size):
            post[i] = pre[i] * math.tanh(softplus(pre[i]))
    elif kind == SQUARE:
        for i in range(size):
            post[i] = pre[i] * pre[i]
    else:
        for i in range(size):
            post[i] = pre[i] * sigmoid(pre[i])


@kernel
def relu_slope_times(pre, dy, dx, size):
    """dx = dy where pre is above 0, else 0."""
    for i in range(size):
        dx[i] = dy[i] if pre[i] > 0 else np.float32(0)


@kernel
def slope_times(kind, slope, pre, post, dy, dx, size):
    """dx = dy · f'(pre), elementwise."""
    if kind == IDENTITY:
        for i in range(size):
            dx[i] = dy[i]
    elif kind == RELU:
        relu_slope_times(pre, dy, dx, size)
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
    elif kind == HARD_TANH:
        for i in range(size):
            dx[i] = dy[i] if abs(pre[i]) < 1 else np.float32(0)
    elif kind == SOFTSIGN:
        for i in range(size):
            share = 1 / (1 + abs(pre[i]))
            dx[i] = dy[i] * (share * share)
    elif kind == ELU:
        for i in range(size):
            dx[i] = dy[i] if pre[i] > 0 else dy[i] * (post[i] + slope)
    elif kind == SELU:
        for i in range(size):
            dx[i] = dy[i] * SELU_SCALE if pre[i] > 0 else dy[i] * (post[i] + SELU_LIMIT)
    elif kind == SOFTPLUS:
        for i in range(size):
            dx[i] = dy[i] * sigmoid(pre[i])
    elif kind == MISH:
        for i in range(size):
            t = math.tanh(softplus(pre[i]))
            dx[i] = dy[i] * (t + pre[i] * (1 - t * t) * sigmoid(pre[i]))
    elif kind == SQUARE:
        for i in range(size):
            dx[i] = dy[i] * (2 * pre[i])
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


# Layer, RMS and batch norm: forward stores x̂ and 1/σ, backward uses them.
#
# x̂ = (x − mean)·s, s = 1/√(var + ε), y = g ⊙ x̂ + shift
# dx = s (u − mean u − x̂ mean(u x̂)), u = g ⊙ dy        means over units (layer, RMS) or samples (batch);
#                                                      RMS has no mean and no shift


@kernel
def norm_forward(kind, network, x, y, x_hat, inverse, gain, shift, mean_run, var_run, training, n, H, HP):
    """y = norm(x); batch norm in training also updates its running statistics. Sums in float64."""
    if kind == NONE:
        for i in range(n * HP):
            y[i] = x[i]
        return
    if kind == BATCH:
        for j in range(H):
            m = np.float64(mean_run[j])
            v = np.float64(var_run[j])
            if training:
                m = 0.0
                for i in range(n):
                    m += x[i * HP + j]
                m /= n
                v = 0.0
                for i in range(n):
                    v += (x[i * HP + j] - m) ** 2
                v /= n
                mean_run[j] += network.momentum * (m - mean_run[j])
                if n > 1:
                    var_run[j] += network.momentum * (v * n / (n - 1) - var_run[j])
            s = 1 / math.sqrt(v + network.epsilon)
            inverse[j] = s
            for i in range(n):
                h = (x[i * HP + j] - m) * s
                x_hat[i * HP + j] = h
                y[i * HP + j] = gain[j] * x_hat[i * HP + j] + shift[j]
        for i in range(n):
            for j in range(H, HP):
                x_hat[i * HP + j] = 0
                y[i * HP + j] = 0
        return
    for i in range(n):
        at = i * HP
        m = 0.0
        if kind == LAYER:
            for j in range(H):
                m += x[at + j]
            m /= H
        v = 0.0
        for j in range(H):
            v += (x[at + j] - m) ** 2
        s = 1 / math.sqrt(v / H + network.epsilon)
        inverse[i] = s
        for j in range(H):
            x_hat[at + j] = (x[at + j] - m) * s
            y[at + j] = gain[j] * x_hat[at + j] + (shift[j] if kind == LAYER else 0)
        for j in range(H, HP):
            x_hat[at + j] = 0
            y[at + j] = 0


@kernel
def norm_backward(kind, dy, dx, x_hat, inverse, gain, d_gain, d_shift, n, H, HP):
    """dx (may be dy), dg and d shift."""
    for j in range(H):
        a, b = 0.0, 0.0
        for i in range(n):
            a += dy[i * HP + j] * x_hat[i * HP + j]
            b += dy[i * HP + j]
        d_gain[j] = a
        if kind != RMS:
            d_shift[j] = b
        if kind == BATCH:
            mean_u, mean_ux = gain[j] * b / n, gain[j] * a / n
            for i in range(n):
                at = i * HP + j
                dx[at] = inverse[j] * (gain[j] * dy[at] - mean_u - x_hat[at] * mean_ux)
    if kind == BATCH:
        return
    for i in range(n):
        at = i * HP
        mean_u, mean_ux = 0.0, 0.0
        for j in range(H):
            u = gain[j] * dy[at + j]
            mean_u += u
            mean_ux += u * x_hat[at + j]
        mean_u = mean_u / H if kind == LAYER else 0.0
        mean_ux /= H
        for j in range(H):
            dx[at + j] = inverse[i] * (gain[j] * dy[at + j] - mean_u - x_hat[at + j] * mean_ux)


# Loss, its gradient and the number of correct answers, in one pass.
#
#     cross-entropy   L = mean_i (log Σ_j exp o_ij − o_i,t(i)),    dL/do = (softmax o − one-hot t)/n
#     mse             L = mean (o − t)²,                           dL/do = 2 (o − t)/(n k)
#
# Sums are taken in float64.


@kernel
def loss_and_gradient(data, O, rows, D, H, HP):
    """(L, correct answers); writes dL/do to D (padding 0). O and D have rows of HP numbers."""
    n = len(rows)
    total, correct = 0.0, 0
    if data.loss == CROSS_ENTROPY:
        for i in range(n):
            at, label = i * HP, data.labels[rows[i]]
            top, best = O[at], 0
            for j in range(1, H):
                # the first NaN wins, as in NumPy's argmax and max
                if O[at + j] > top or (O[at + j] != O[at + j] and top == top):
                    top, best = O[at + j], j
            s = 0.0
            for j in range(H):
                e = math.exp(O[at + j] - top)
                D[at + j] = e
                s += e
            total += math.log(s) - (O[at + label] - top)
            correct += best == label
            scale = 1.0 / (s * n)
            for j in range(H):
                D[at + j] = D[at + j] * scale
            D[at + label] -= 1.0 / n
            for j in range(H, HP):
                D[at + j] = 0
        return total / n, correct
    scale = 2.0 / (n * H)
    for i in range(n):
        at, row = i * HP, rows[i]
        for j in range(H):
            error = O[at + j] - data.targets[row, j]
            total += np.float64(error) * np.float64(error)
            D[at + j] = error * scale
        for j in range(H, HP):
            D[at + j] = 0
    return total / (n * H), 0


# Gather rows of the data set into a batch.
#
# X[i, :] = stored[rows[i], :] · factor + offset        uint8 pixels, scaled
# X[i, :] = values[rows[i], :]                          numbers that need no scaling

LINE = 64
"""Bytes of a cache line."""


@kernel
def gather(data, rows, K, X, KP):
    """Copy rows of K numbers into rows of KP; padding columns are not written."""
    for i in range(len(rows)):
        x = window(X, i * KP)
        if len(data.pixels) > 0:
            p = window(data.pixels, rows[i] * K)
            for k in range(K):
                x[k] = X.dtype.type(p[k]) * data.factor + data.offset
        else:
            v = window(data.values, rows[i] * K)
            for k in range(K):
                x[k] = v[k]


@kernel
def ask_for(data, rows, K):
    """Ask for these rows of a data set that fits no cache, so that they are near when they are gathered."""
    for i in range(len(rows)):
        if len(data.pixels) > 0:
            for k in range(0, K, LINE):
                prefetch(data.pixels, rows[i] * K + k)
        else:
            for k in range(0, K, LINE // data.values.itemsize):
                prefetch(data.values, rows[i] * K + k)


@intrinsic
def prefetch(typing, array, at):
    """Ask for the cache line of array[at], to be read; moves nothing into registers."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, near, is_data = (ir.Constant(whole, value) for value in (0, 2, 1))
        builder.call(ask, [builder.bitcast(builder.gep(data, [arguments[1]]), byte), read, near, is_data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate

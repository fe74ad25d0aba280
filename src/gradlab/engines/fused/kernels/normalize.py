"""Layer, RMS and batch norm: forward stores x̂ and 1/σ, backward uses them.

x̂ = (x − mean)·s, s = 1/√(var + ε), y = g ⊙ x̂ + shift
dx = s (u − mean u − x̂ mean(u x̂)), u = g ⊙ dy        means over units (layer, RMS) or samples (batch);
                                                     RMS has no mean and no shift
"""

from __future__ import annotations

import math

import numpy as np

from gradlab.engines.fused.kernels.compiled import kernel
from gradlab.engines.fused.kernels.supported import BATCH, LAYER, NONE, RMS


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

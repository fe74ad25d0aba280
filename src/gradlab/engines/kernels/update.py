"""One pass over memory per optimiser: gradient, state and parameters are read once and written once.

Equations as in `gradlab.optim.optimizers`. Numbers that do not depend on the entry (η, the bias corrections) are
computed once, in float64.
"""

from __future__ import annotations

import math

import numpy as np

from gradlab.engines.kernels.compiled import kernel

SGD, MOMENTUM, NESTEROV, RMSPROP, ADAM, ADAMW = range(6)


@kernel
def update(kind, theta, g, m, v, before, keep, lr, a, b, epsilon, decay, t, clip):
    """θ ← θ + Δ. `a`, `b`: μ, or α of RMSProp, or β₁ and β₂. t counts from 1. `keep`: copy the old θ to `before`."""
    real = theta.dtype.type
    factor = clip_factor(g, clip)
    if factor != 1.0:
        for i in range(len(g)):
            g[i] = g[i] * real(factor)
    if keep:
        for i in range(len(theta)):
            before[i] = theta[i]
    if decay != 0 and kind != ADAMW:
        for i in range(len(g)):
            g[i] += real(decay) * theta[i]
    if kind == SGD:
        _sgd(theta, g, real(lr))
    elif kind == MOMENTUM:
        _momentum(theta, g, m, real(lr), real(a))
    elif kind == NESTEROV:
        _nesterov(theta, g, m, real(lr), real(a))
    elif kind == RMSPROP:
        _rmsprop(theta, g, v, real(lr), real(a), real(1 - a), real(epsilon))
    else:
        shrink = real(lr * decay) if kind == ADAMW else real(0)
        root = real(1 / math.sqrt(1 - math.pow(b, t)))
        step = real(-lr / (1 - math.pow(a, t)))
        _adam(theta, g, m, v, real(a), real(1 - a), real(b), real(1 - b), root, real(epsilon), step, shrink)


@kernel
def _sgd(theta, g, lr):
    for i in range(len(theta)):
        theta[i] -= lr * g[i]


@kernel
def _momentum(theta, g, m, lr, mu):
    for i in range(len(theta)):
        m[i] = mu * m[i] + g[i]
        theta[i] -= lr * m[i]


@kernel
def _nesterov(theta, g, m, lr, mu):
    for i in range(len(theta)):
        m[i] = mu * m[i] + g[i]
        theta[i] -= lr * (g[i] + mu * m[i])


@kernel
def _rmsprop(theta, g, v, lr, alpha, rest, epsilon):
    for i in range(len(theta)):
        v[i] = alpha * v[i] + rest * (g[i] * g[i])
        theta[i] -= lr * g[i] / (np.sqrt(v[i]) + epsilon)


@kernel
def _adam(theta, g, m, v, b1, rest1, b2, rest2, root, epsilon, step, shrink):
    for i in range(len(theta)):
        m[i] = b1 * m[i] + rest1 * g[i]
        v[i] = b2 * v[i] + rest2 * (g[i] * g[i])
        theta[i] += step * (m[i] / (np.sqrt(v[i]) * root + epsilon)) - shrink * theta[i]


@kernel
def clip_factor(g, clip):
    """min(1, c/(‖g‖ + 10⁻⁶)), the norm in float64; 1 where there is no clipping (c = 0)."""
    if clip <= 0:
        return 1.0
    total = 0.0
    for i in range(len(g)):
        total += np.float64(g[i]) * np.float64(g[i])
    factor = clip / (math.sqrt(total) + 1e-6)
    return factor if not factor >= 1 else 1.0

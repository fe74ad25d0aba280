"""One pass over memory per optimizer step: gradient, state and parameters are read once and written once.

Equations as in `gradlab.optim.optimizers`. Numbers that do not depend on the entry (η, the bias corrections) are
computed once per step, in float64, and passed as `c`. A range of parameters can be updated as soon as its gradient is
known, while it is still in the cache.
"""

from __future__ import annotations

import math

import numpy as np

from gradlab.engines.fused.kernels.compiled import kernel, window
from gradlab.engines.fused.kernels.supported import ADAM, ADAMW, MOMENTUM, NESTEROV, RMSPROP, SGD

LR, MU, REST, BETA, REST2, ROOT, EPSILON, STEP, SHRINK, DECAY, NUMBERS = range(11)


@kernel
def step_numbers(rule, lr, t):
    """Fill `rule.numbers` for step t (from 1)."""
    fill_numbers(rule.kind, lr, rule.a, rule.b, rule.epsilon, rule.decay, t, rule.numbers)


@kernel
def fill_numbers(kind, lr, a, b, epsilon, decay, t, c):
    """The numbers of step t (from 1). `a`, `b`: μ, or α of RMSProp, or β₁ and β₂."""
    c[LR], c[MU], c[REST], c[BETA], c[REST2], c[EPSILON] = lr, a, 1 - a, b, 1 - b, epsilon
    c[SHRINK] = lr * decay if kind == ADAMW else 0.0
    c[DECAY] = 0.0 if kind == ADAMW else decay
    if kind >= ADAM:
        c[ROOT], c[STEP] = 1 / math.sqrt(1 - math.pow(b, t)), -lr / (1 - math.pow(a, t))


@kernel
def update(kind, c, parameters, start, stop, at):
    """θ ← θ + Δ for the parameters from `start` to `stop`; their gradient begins at `at`."""
    count = stop - start
    theta, g = window(parameters.theta, start), window(parameters.gradient, at)
    m, v = window(parameters.m, start), window(parameters.v, start)
    if c[DECAY] != 0:
        for i in range(count):
            g[i] += c[DECAY] * theta[i]
    if kind == SGD:
        lr = c[LR]
        for i in range(count):
            theta[i] -= lr * g[i]
    elif kind == MOMENTUM:
        _momentum(theta, g, m, c[LR], c[MU], count)
    elif kind == NESTEROV:
        _nesterov(theta, g, m, c[LR], c[MU], count)
    elif kind == RMSPROP:
        _rmsprop(theta, g, v, c[LR], c[MU], c[REST], c[EPSILON], count)
    else:
        _adam(theta, g, m, v, c[MU], c[REST], c[BETA], c[REST2], c[ROOT], c[EPSILON], c[STEP], c[SHRINK], count)


@kernel
def _momentum(theta, g, m, lr, mu, count):
    for i in range(count):
        m[i] = mu * m[i] + g[i]
        theta[i] -= lr * m[i]


@kernel
def _nesterov(theta, g, m, lr, mu, count):
    for i in range(count):
        m[i] = mu * m[i] + g[i]
        theta[i] -= lr * (g[i] + mu * m[i])


@kernel
def _rmsprop(theta, g, v, lr, alpha, rest, epsilon, count):
    for i in range(count):
        v[i] = alpha * v[i] + rest * (g[i] * g[i])
        theta[i] -= lr * g[i] / (np.sqrt(v[i]) + epsilon)


@kernel
def _adam(theta, g, m, v, b1, rest1, b2, rest2, root, epsilon, step, shrink, count):
    for i in range(count):
        m[i] = b1 * m[i] + rest1 * g[i]
        v[i] = b2 * v[i] + rest2 * (g[i] * g[i])
        theta[i] += step * (m[i] / (np.sqrt(v[i]) * root + epsilon)) - shrink * theta[i]


@kernel
def clip_gradient(g, clip):
    """g · min(1, c/(‖g‖ + 10⁻⁶)), the norm over all parameters, in float64."""
    total = 0.0
    for i in range(len(g)):
        total += np.float64(g[i]) * np.float64(g[i])
    factor = clip / (math.sqrt(total) + 1e-6)
    if not factor >= 1:
        for i in range(len(g)):
            g[i] = g[i] * g.dtype.type(factor)

"""Tiny networks side by side: sixteen of one shape, each in its own vector lane.

A product of 16 × 16 numbers is too small to fill a register tile, and the call costs more than the arithmetic. So the
lanes run over networks instead of columns: every number of the network is a row of sixteen, one for each network
(lane_rows.py), and so is every sum of products (lane_products.py). Lanes are independent: the bits in one do not depend
on the contents of the others.
"""

from __future__ import annotations

import math

import numpy as np

from gradlab.engines.fused.kernels.compiled import kernel, window
from gradlab.engines.fused.kernels.elementwise import activate, slope_times
from gradlab.engines.fused.kernels.lane_products import sums
from gradlab.engines.fused.kernels.lane_rows import NETS, make_update, square_errors
from gradlab.engines.fused.kernels.supported import ADAM, CROSS_ENTROPY, MOMENTUM, NESTEROV, RMSPROP, SGD
from gradlab.engines.fused.kernels.update import (
    BETA,
    DECAY,
    EPSILON,
    LR,
    MU,
    NUMBERS,
    REST,
    REST2,
    ROOT,
    SHRINK,
    STEP,
    fill_numbers,
)  # fmt: skip

FAN_IN, FAN_OUT, WEIGHT, BIAS, ACT, INPUT, PRE, POST, COLUMNS = range(9)
"""Columns of a layer: its sizes, offsets of its parameters (−1: no bias), its activation, offsets of x, z, f(z)."""


@kernel
def forward(lanes, theta, work):
    """Run all layers; what backward needs stays in the workspace."""
    n = lanes.n
    for index in range(len(lanes.table)):
        layer = lanes.table[index]
        k, h, x, z = layer[FAN_IN], layer[FAN_OUT], layer[INPUT], layer[PRE]
        w, b = layer[WEIGHT], layer[BIAS]
        sums(work, x, k, 1, theta, w, h, 1, theta, b, 1, work, z, h, 1, n, h, k)
        size = n * h * NETS
        activate(layer[ACT], lanes.slope, window(work, z * NETS), window(work, layer[POST] * NETS), size)


@kernel
def backward(lanes, theta, gradient, space):
    """Compute the gradients of all parameters; overwrites `space.d`, which holds dL/d output."""
    n, work, d, d_next, ones = lanes.n, space.work, space.d, space.d_next, space.ones
    for index in range(len(lanes.table) - 1, -1, -1):
        layer = lanes.table[index]
        k, h, x = layer[FAN_IN], layer[FAN_OUT], layer[INPUT]
        pre, post = window(work, layer[PRE] * NETS), window(work, layer[POST] * NETS)
        slope_times(layer[ACT], lanes.slope, pre, post, d, d_next, n * h * NETS)  # in place it would not be vectorized
        d, d_next = d_next, d
        w = layer[WEIGHT]
        sums(work, x, 1, k, d, 0, h, 1, ones, -1, 0, gradient, w, h, 1, k, h, n)
        if layer[BIAS] >= 0:
            sums(ones, 0, 0, 0, d, 0, h, 1, ones, -1, 0, gradient, layer[BIAS], 0, 1, 1, h, n)
        if index > 0:
            sums(d, 0, h, 1, theta, w, 1, h, ones, -1, 0, d_next, 0, k, 1, n, k, h)
            d, d_next = d_next, d


@kernel
def losses_and_gradients(lanes, O, h, D, loss, correct):
    """Loss and correct answers of every lane; writes dL/do to D. Sums in float64, as in `losses`."""
    n = lanes.n
    for lane in range(NETS):
        loss[lane], correct[lane] = 0.0, 0
    if lanes.loss == CROSS_ENTROPY:
        for lane in range(NETS):
            _cross_entropy(window(O, lane), lanes.labels[:, lane], n, h, window(D, lane), loss, correct, lane)
        return
    square_errors(O, lanes.values, D, n * h, 2.0 / (n * h), loss)
    for lane in range(NETS):
        loss[lane] /= n * h


@kernel
def _cross_entropy(O, labels, n, h, D, loss, correct, lane):
    """One lane: its numbers are NETS apart."""
    total, right = 0.0, 0
    for i in range(n):
        at, label = i * h * NETS, labels[i]
        top, best = O[at], 0
        for j in range(1, h):
            o = O[at + j * NETS]
            if o > top or (o != o and top == top):  # the first NaN wins, as in NumPy's argmax
                top, best = o, j
        s = 0.0
        for j in range(h):
            e = math.exp(O[at + j * NETS] - top)
            D[at + j * NETS] = e
            s += e
        total += math.log(s) - (O[at + label * NETS] - top)
        right += best == label
        scale = 1.0 / (s * n)
        for j in range(h):
            D[at + j * NETS] = D[at + j * NETS] * scale
        D[at + label * NETS] -= 1.0 / n
    loss[lane], correct[lane] = total / n, right


def _sgd(c, theta, g, m, v):
    return theta - c[LR] * (g + c[DECAY] * theta), m, v


def _momentum(c, theta, g, m, v):
    m_next = c[MU] * m + (g + c[DECAY] * theta)
    return theta - c[LR] * m_next, m_next, v


def _nesterov(c, theta, g, m, v):
    slope = g + c[DECAY] * theta
    m_next = c[MU] * m + slope
    return theta - c[LR] * (slope + c[MU] * m_next), m_next, v


def _rmsprop(c, theta, g, m, v):
    slope = g + c[DECAY] * theta
    v_next = c[MU] * v + c[REST] * (slope * slope)
    return theta - c[LR] * slope / (v_next.sqrt() + c[EPSILON]), m, v_next


def _adam(c, theta, g, m, v):
    slope = g + c[DECAY] * theta
    m_next = c[MU] * m + c[REST] * slope
    v_next = c[BETA] * v + c[REST2] * (slope * slope)
    change = c[STEP] * (m_next / (v_next.sqrt() * c[ROOT] + c[EPSILON]))
    return theta + (change - c[SHRINK] * theta), m_next, v_next


_equations = (_sgd, _momentum, _nesterov, _rmsprop, _adam)
_update_sgd, _update_momentum, _update_nesterov, _update_rmsprop, _update_adam = (
    make_update(equation, NUMBERS) for equation in _equations
)


@kernel
def update(kind, c, theta, g, m, v):
    """θ ← θ + Δ in every lane, with the lane's settings; equations as in update.py."""
    count = len(theta) // NETS
    if kind == SGD:
        _update_sgd(c, theta, g, m, v, count)
    elif kind == MOMENTUM:
        _update_momentum(c, theta, g, m, v, count)
    elif kind == NESTEROV:
        _update_nesterov(c, theta, g, m, v, count)
    elif kind == RMSPROP:
        _update_rmsprop(c, theta, g, m, v, count)
    else:
        _update_adam(c, theta, g, m, v, count)


@kernel
def clip_gradients(g, clip):
    """g · min(1, c/(‖g‖ + 10⁻⁶)) in every lane, the norm in float64."""
    for lane in range(NETS):
        if clip[lane] > 0:
            total = 0.0
            for i in range(lane, len(g), NETS):
                total += np.float64(g[i]) * np.float64(g[i])
            factor = clip[lane] / (math.sqrt(total) + 1e-6)
            if not factor >= 1:
                for i in range(lane, len(g), NETS):
                    g[i] = g[i] * g.dtype.type(factor)


@kernel
def lane_numbers(rule, rate, t, lane):
    """The numbers of step t (from 1) of one lane."""
    a, b, epsilon, decay = (
        rule.settings[0, lane], rule.settings[1, lane], rule.settings[2, lane], rule.settings[3, lane],
    )  # fmt: skip
    fill_numbers(rule.kind, rate, a, b, epsilon, decay, t, rule.own)
    for i in range(NUMBERS):
        rule.numbers[i, lane] = rule.own[i]


@kernel
def train_lanes(lanes, rule, rates, first, parameters, space, losses, correct):
    """Train the steps `first`, … of all lanes on their whole data; `rates` has one row per step.

    A lane with a non-finite loss has ended: its parameters and its last step are kept. The arguments are the named
    tuples of arguments.py; `losses` and `correct` get one row per step.
    """
    theta = parameters.theta
    last = lanes.table[len(lanes.table) - 1]
    out = window(space.work, last[POST] * NETS)
    for s in range(len(rates)):
        forward(lanes, theta, space.work)
        losses_and_gradients(lanes, out, last[FAN_OUT], space.d, losses[s], correct[s])
        some = False
        for lane in range(NETS):
            if parameters.ended_at[lane] < 0 and not math.isfinite(losses[s, lane]):
                parameters.ended_at[lane] = first + s
                for i in range(lane, len(theta), NETS):
                    parameters.ended[i] = theta[i]
            some = some or parameters.ended_at[lane] < 0
        if not some:
            return
        if s == len(rates) - 1:
            for i in range(len(theta)):
                parameters.before[i] = theta[i]
        for lane in range(NETS):
            if s == 0 or rule.kind >= ADAM or rates[s, lane] != rates[s - 1, lane]:
                lane_numbers(rule, rates[s, lane], first + s + 1, lane)
        backward(lanes, theta, parameters.gradient, space)
        clip_gradients(parameters.gradient, rule.clip)
        update(rule.kind, rule.numbers, theta, parameters.gradient, parameters.m, parameters.v)

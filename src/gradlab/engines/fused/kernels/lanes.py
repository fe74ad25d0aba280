"""Tiny networks side by side: sixteen of one shape, each in its own vector lane.

A product of 16 × 16 numbers is too small to fill a register tile, and the call costs more than the arithmetic. So the
lanes run over networks instead of columns: every number of the network is a row of sixteen, one for each network.

    z[s, j] = b[j] + Σ_k x[s, k] W[k, j]        g_W[k, j] = Σ_s x[s, k] δ[s, j]        d[s, k] = Σ_j δ[s, j] W[k, j]

Lanes are independent: the bits in one do not depend on the contents of the others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gradlab.engines.fused.kernels.compiled import kernel, window
from gradlab.engines.fused.kernels.elementwise import activate, slope_times
from gradlab.engines.fused.kernels.supported import CROSS_ENTROPY, MOMENTUM, NESTEROV, RMSPROP, SGD
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

NETS = 16
SUMS_AT_ONCE = 4
"""Number of sums computed together: their chains of additions overlap, and one factor serves them all."""
FAN_IN, FAN_OUT, WEIGHT, BIAS, ACT, INPUT, PRE, POST, COLUMNS = range(9)
"""Columns of a layer: its sizes, offsets of its parameters (−1: no bias), its activation, offsets of x, z, f(z)."""


def make_dot(outputs: int) -> Any:
    """Return the intrinsic that sums products lane by lane, several results at a time.

    C[c0 + r·cr] = start + Σ_p A[a0 + p·ap] · B[b0 + r·br + p·bp] for r < outputs; every entry is a row of NETS numbers.
    `start` is a row of S (at s0 + r·sr) or, if s0 < 0, zero.
    """

    @intrinsic
    def dot(typing, A, a0, ap, B, b0, bp, br, P, S, s0, sr, C, c0, cr):
        def generate(context, builder, signature, arguments):
            emit = _Emitter(context, builder, signature, arguments, outputs)
            emit.all()
            return context.get_dummy_value()

        n = types.int64
        return types.void(A, n, n, A, n, n, n, n, A, n, n, A, n, n), generate

    return dot


class _Emitter:
    """Emits the instructions of one group of sums."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any, outputs: int) -> None:
        self.b = builder
        self.outputs = outputs
        places = {"A": 0, "B": 3, "S": 8, "C": 11}
        self.data = {
            name: context.make_array(signature.args[place])(context, builder, arguments[place]).data
            for name, place in places.items()
        }
        _, self.a0, self.ap, _, self.b0, self.bp, self.br, self.P, _, self.s0, self.sr, _, self.c0, self.cr = arguments
        self.scalar = self.data["A"].type.pointee
        self.vector = ir.VectorType(self.scalar, NETS)
        self.bytes = 4 if isinstance(self.scalar, ir.FloatType) else 8

    def _number(self, value: int) -> Any:
        return ir.Constant(ir.IntType(64), value)

    def _at(self, name: str, row: Any) -> Any:
        place = self.b.gep(self.data[name], [self.b.mul(row, self._number(NETS))])
        return self.b.bitcast(place, self.vector.as_pointer())

    def _load(self, name: str, row: Any) -> Any:
        value = self.b.load(self._at(name, row))
        value.align = self.bytes
        return value

    def all(self) -> None:
        """Start, sum, store."""
        b = self.b
        sums = [cgutils.alloca_once(b, self.vector) for _ in range(self.outputs)]
        zero = ir.Constant(self.vector, [0.0] * NETS)
        with b.if_else(b.icmp_signed("<", self.s0, self._number(0))) as (without, with_start):
            with without:
                for total in sums:
                    b.store(zero, total)
            with with_start:
                for r, total in enumerate(sums):
                    b.store(self._load("S", b.add(self.s0, b.mul(self.sr, self._number(r)))), total)
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        name = f"llvm.fmuladd.v{NETS}{'f32' if self.bytes == 4 else 'f64'}"
        multiply_add = cgutils.get_or_insert_function(b.module, kind, name)
        starts = [b.add(self.b0, b.mul(self.br, self._number(r))) for r in range(self.outputs)]
        with cgutils.for_range(b, self.P, intp=ir.IntType(64)) as loop:
            a = self._load("A", b.add(self.a0, b.mul(loop.index, self.ap)))
            step = b.mul(loop.index, self.bp)
            for start, total in zip(starts, sums, strict=True):
                value = b.call(multiply_add, [a, self._load("B", b.add(start, step)), b.load(total)])
                b.store(value, total)
        for r, total in enumerate(sums):
            place = self._at("C", b.add(self.c0, b.mul(self.cr, self._number(r))))
            b.store(b.load(total), place).align = self.bytes


dot1, dot4 = make_dot(1), make_dot(SUMS_AT_ONCE)


@kernel
def dots(A, a0, ap, B, b0, bp, br, P, S, s0, sr, C, c0, cr, count):
    """Compute `count` sums, four at a time as long as possible."""
    r = 0
    while r + SUMS_AT_ONCE <= count:
        start = s0 + r * sr if s0 >= 0 else -1
        dot4(A, a0, ap, B, b0 + r * br, bp, br, P, S, start, sr, C, c0 + r * cr, cr)
        r += SUMS_AT_ONCE
    while r < count:
        start = s0 + r * sr if s0 >= 0 else -1
        dot1(A, a0, ap, B, b0 + r * br, bp, br, P, S, start, sr, C, c0 + r * cr, cr)
        r += 1


@kernel
def forward(lanes, theta, work):
    """Run all layers; what backward needs stays in the workspace."""
    n = lanes.n
    for index in range(len(lanes.table)):
        layer = lanes.table[index]
        k, h, x, z = layer[FAN_IN], layer[FAN_OUT], layer[INPUT], layer[PRE]
        w, b = layer[WEIGHT], layer[BIAS]
        if h >= SUMS_AT_ONCE:
            for s in range(n):
                dots(work, x + s * k, 1, theta, w, h, 1, k, theta, b, 1, work, z + s * h, 1, h)
        else:  # few columns: several samples at a time instead
            for j in range(h):
                start = b + j if b >= 0 else -1
                dots(theta, w + j, h, work, x, 1, k, k, theta, start, 0, work, z + j, h, n)
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
        if h >= SUMS_AT_ONCE:
            for i in range(k):
                dots(work, x + i, k, d, 0, h, 1, n, ones, -1, 0, gradient, w + i * h, 1, h)
        else:
            for j in range(h):
                dots(d, j, h, work, x, k, 1, n, ones, -1, 0, gradient, w + j, h, k)
        if layer[BIAS] >= 0:
            dots(ones, 0, 0, d, 0, h, 1, n, ones, -1, 0, gradient, layer[BIAS], 1, h)
        if index > 0:
            for s in range(n):
                dots(d, s * h, 1, theta, w, 1, h, h, ones, -1, 0, d_next, s * k, 1, k)
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
    scale = 2.0 / (n * h)
    for i in range(n * h):
        o, t, d = window(O, i * NETS), window(lanes.values, i * NETS), window(D, i * NETS)
        for lane in range(NETS):
            error = o[lane] - t[lane]
            loss[lane] += np.float64(error) * np.float64(error)
            d[lane] = error * scale
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


@kernel
def update(kind, c, theta, g, m, v):
    """θ ← θ + Δ in every lane, with the lane's settings; equations as in `update`."""
    count = len(theta) // NETS
    for p in range(count):
        at = p * NETS
        t, d, first, second = window(theta, at), window(g, at), window(m, at), window(v, at)
        if kind == SGD:
            for i in range(NETS):
                t[i] -= c[LR, i] * (d[i] + c[DECAY, i] * t[i])
        elif kind == MOMENTUM:
            for i in range(NETS):
                first[i] = c[MU, i] * first[i] + (d[i] + c[DECAY, i] * t[i])
                t[i] -= c[LR, i] * first[i]
        elif kind == NESTEROV:
            for i in range(NETS):
                slope = d[i] + c[DECAY, i] * t[i]
                first[i] = c[MU, i] * first[i] + slope
                t[i] -= c[LR, i] * (slope + c[MU, i] * first[i])
        elif kind == RMSPROP:
            for i in range(NETS):
                slope = d[i] + c[DECAY, i] * t[i]
                second[i] = c[MU, i] * second[i] + c[REST, i] * (slope * slope)
                t[i] -= c[LR, i] * slope / (np.sqrt(second[i]) + c[EPSILON, i])
        else:
            for i in range(NETS):
                slope = d[i] + c[DECAY, i] * t[i]
                first[i] = c[MU, i] * first[i] + c[REST, i] * slope
                second[i] = c[BETA, i] * second[i] + c[REST2, i] * (slope * slope)
                change = c[STEP, i] * (first[i] / (np.sqrt(second[i]) * c[ROOT, i] + c[EPSILON, i]))
                t[i] += change - c[SHRINK, i] * t[i]


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
            a, b, epsilon, decay = (
                rule.settings[0, lane], rule.settings[1, lane], rule.settings[2, lane], rule.settings[3, lane],
            )  # fmt: skip
            fill_numbers(rule.kind, rates[s, lane], a, b, epsilon, decay, first + s + 1, rule.own)
            for i in range(NUMBERS):
                rule.numbers[i, lane] = rule.own[i]
        backward(lanes, theta, parameters.gradient, space)
        clip_gradients(parameters.gradient, rule.clip)
        update(rule.kind, rule.numbers, theta, parameters.gradient, parameters.m, parameters.v)

"""Tiny networks, sixteen of one shape side by side, each in its own vector lane."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gradlab.engines.fused.kernels.compiled import kernel, window
from gradlab.engines.fused.kernels.elementwise import activate, slope_times
from gradlab.engines.fused.kernels.supported import ADAM, CROSS_ENTROPY, MOMENTUM, NESTEROV, RMSPROP, SGD
from gradlab.engines.fused.kernels.tile import INDEX, registers, while_left
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

# Rows of sixteen numbers, one per network, in vector registers, and the loops over them: updates and square errors.
#
# An equation is plain Python on `Row`s; it runs once, when the kernels are compiled, and emits the instructions of its
# operators. Nothing is contracted or reordered: a + b · c rounds twice, as in NumPy.

NETS = 16
_DOUBLE = ir.DoubleType()


@dataclass(frozen=True)
class Row:
    """Sixteen numbers of one precision, and the operators that equations use."""

    builder: Any
    value: Any

    def __add__(self, other: Row) -> Row:
        return Row(self.builder, self.builder.fadd(self.value, other.value))

    def __sub__(self, other: Row) -> Row:
        return Row(self.builder, self.builder.fsub(self.value, other.value))

    def __mul__(self, other: Row) -> Row:
        return Row(self.builder, self.builder.fmul(self.value, other.value))

    def __truediv__(self, other: Row) -> Row:
        return Row(self.builder, self.builder.fdiv(self.value, other.value))

    def sqrt(self) -> Row:
        """√x."""
        kind = ir.FunctionType(self.value.type, [self.value.type])
        name = f"llvm.sqrt.v{NETS}{'f64' if self._is_double else 'f32'}"
        return Row(
            self.builder,
            self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [self.value]),
        )

    def widen(self) -> Row:
        """The same numbers in float64."""
        return (
            self if self._is_double else Row(self.builder, self.builder.fpext(self.value, ir.VectorType(_DOUBLE, NETS)))
        )

    def round_like(self, other: Row) -> Row:
        """Round to the precision of another row."""
        if self.value.type == other.value.type:
            return self
        return Row(self.builder, self.builder.fptrunc(self.value, other.value.type))

    @property
    def _is_double(self) -> bool:
        return bool(self.value.type.element == _DOUBLE)


@dataclass(frozen=True)
class Rows:
    """An array as rows, to load and store by number."""

    builder: Any
    data: Any

    @staticmethod
    def of(context: Any, builder: Any, kind: Any, value: Any) -> Rows:
        """Return a numba array as rows."""
        return Rows(builder, context.make_array(kind)(context, builder, value).data)

    @property
    def vector(self) -> Any:
        """The type of a row."""
        return ir.VectorType(self.data.type.pointee, NETS)

    def _place(self, row: Any) -> Any:
        start = self.builder.gep(self.data, [self.builder.mul(row, ir.Constant(INDEX, NETS))])
        return self.builder.bitcast(start, self.vector.as_pointer())

    def load(self, row: Any) -> Row:
        """Read a row."""
        value = self.builder.load(self._place(row))
        value.align = 4
        return Row(self.builder, value)

    def store(self, row: Any, value: Row) -> None:
        """Write a row."""
        self.builder.store(value.value, self._place(row)).align = 4


Equation = Callable[[list[Row], Row, Row, Row, Row], tuple[Row, Row, Row]]
"""(numbers of the step, θ, g, m, v) -> new θ, m and v."""


def make_update(equation: Equation, numbers: int) -> Any:
    """Return the intrinsic (c, θ, g, m, v, count) that applies an equation to `count` rows of parameters."""

    @intrinsic
    def apply(typing, c, theta, g, m, v, count):
        def generate(context, builder, signature, arguments):
            arrays = [
                Rows.of(context, builder, kind, value)
                for kind, value in zip(signature.args[:5], arguments[:5], strict=True)
            ]
            step = [arrays[0].load(ir.Constant(INDEX, number)) for number in range(numbers)]
            with cgutils.for_range(builder, arguments[5], intp=INDEX) as loop:
                old = [array.load(loop.index) for array in arrays[1:]]
                new = equation(step, *old)
                for array, before, after in zip((arrays[1], *arrays[3:]), (old[0], *old[2:]), new, strict=True):
                    if after is not before:
                        array.store(loop.index, after)
            return context.get_dummy_value()

        return types.void(c, theta, g, m, v, types.int64), generate

    return apply


@intrinsic
def square_errors(typing, O, T, D, count, scale, loss):
    """D = scale · (O − T) and loss[lane] = Σ (O − T)², over `count` rows; products and sums in float64."""

    def generate(context, builder, signature, arguments):
        kinds = signature.args
        outputs, targets, gradient, total = (Rows.of(context, builder, kinds[i], arguments[i]) for i in (0, 1, 2, 5))
        wide = total.vector
        empty = ir.Constant(wide, ir.Undefined)
        first = builder.insert_element(empty, arguments[4], ir.Constant(ir.IntType(32), 0))
        spread = builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(ir.IntType(32), NETS), [0] * NETS))
        sums = cgutils.alloca_once_value(builder, ir.Constant(wide, [0.0] * NETS))
        with cgutils.for_range(builder, arguments[3], intp=INDEX) as loop:
            output = outputs.load(loop.index)
            error = (output - targets.load(loop.index)).widen()
            builder.store((Row(builder, builder.load(sums)) + error * error).value, sums)
            gradient.store(loop.index, (error * Row(builder, spread)).round_like(output))
        total.store(ir.Constant(INDEX, 0), Row(builder, builder.load(sums)))
        return context.get_dummy_value()

    return types.void(O, T, D, types.int64, types.float64, loss), generate


# The products of tiny networks: sums over p of A[r, p] · B[p, q] where every entry is a row, one number per network.
#
#     z[s, j] = b[j] + Σ_k x[s, k] W[k, j]        g_W[k, j] = Σ_s x[s, k] δ[s, j]        d[s, k] = Σ_j δ[s, j] W[k, j]
#
# One loop serves all three: strides decide what is transposed. A block of sums stays in registers, so that every row
# that is loaded serves several of them, and their chains of additions overlap.


@intrinsic
def sums(typing, A, a0, ar, ap, B, b0, bp, bq, S, s0, sq, C, c0, cr, cq, R, Q, P):
    """C[r, q] = start + Σ_p A[r, p] · B[p, q] for r < R and q < Q, lane by lane, in blocks that fit the registers.

    Every entry is a row; X[i, j] is row x0 + i·xi + j·xj of its array. `start` is row s0 + q·sq of S, or 0 if s0 < 0.
    Each sum is one chain of multiply-adds in the order of p, in whichever block it lies.
    """

    def generate(context, builder, signature, arguments):
        arrays = {
            name: Rows.of(context, builder, signature.args[place], arguments[place])
            for name, place in (("A", 0), ("B", 4), ("S", 8), ("C", 11))
        }
        names = ("a0", "ar", "ap", "b0", "bp", "bq", "s0", "sq", "c0", "cr", "cq", "R", "Q", "P")
        places = [i for i in range(len(arguments)) if i not in (0, 4, 8, 11)]
        given = dict(zip(names, (arguments[i] for i in places), strict=True))
        heights, widths = _block(context, arrays["A"].data.type.pointee)
        zero = ir.Constant(INDEX, 0)
        done_rows = cgutils.alloca_once_value(builder, zero)
        done = cgutils.alloca_once(builder, INDEX)
        for height in heights:
            with while_left(builder, done_rows, given["R"], height) as r:
                builder.store(zero, done)
                for width in widths:
                    with while_left(builder, done, given["Q"], width) as q:
                        _emit_block(builder, arrays, given, (r, height), (q, width))
        return context.get_dummy_value()

    n = types.int64
    return types.void(A, n, n, n, A, n, n, n, A, n, n, A, n, n, n, n, n, n), generate


def _block(context: Any, scalar: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Heights and widths of blocks, the largest first: half of the machine's vector registers hold sums."""
    machine = registers(context)
    most = machine.count // 2 // (NETS // machine.lanes(scalar))
    height = max(size for size in (1, 2, 4) if size * size <= most)
    width = min(most // height, 4)
    return tuple(size for size in (4, 2, 1) if size <= height), tuple(size for size in (4, 2, 1) if size <= width)


def _emit_block(
    builder: Any, arrays: dict[str, Rows], given: dict[str, Any], rows: tuple[Any, int], columns: tuple[Any, int]
) -> None:
    """One block: start, sum, store."""

    def places(start: str, stride: str, first: Any, size: int) -> list[Any]:
        """The rows start + (first + i) · stride for i < size."""
        found = [builder.add(given[start], builder.mul(first, given[stride]))]
        for _ in range(size - 1):
            found.append(builder.add(found[-1], given[stride]))
        return found

    (r, height), (q, width) = rows, columns
    block = [(i, j) for i in range(height) for j in range(width)]
    vector = arrays["A"].vector
    totals = {place: cgutils.alloca_once(builder, vector) for place in block}
    with builder.if_else(builder.icmp_signed("<", given["s0"], ir.Constant(INDEX, 0))) as (without, with_start):
        with without:
            for total in totals.values():
                builder.store(ir.Constant(vector, [0.0] * NETS), total)
        with with_start:
            starts = [arrays["S"].load(place) for place in places("s0", "sq", q, width)]
            for (_, j), total in totals.items():
                builder.store(starts[j].value, total)
    kind = ir.FunctionType(vector, [vector] * 3)
    name = f"llvm.fmuladd.v{NETS}{'f64' if vector.element == ir.DoubleType() else 'f32'}"
    multiply_add = cgutils.get_or_insert_function(builder.module, kind, name)
    at_a, at_b = places("a0", "ar", r, height), places("b0", "bq", q, width)
    with cgutils.for_range(builder, given["P"], intp=INDEX) as loop:
        step_a, step_b = (builder.mul(loop.index, given[stride]) for stride in ("ap", "bp"))
        a = [arrays["A"].load(builder.add(place, step_a)).value for place in at_a]
        b = [arrays["B"].load(builder.add(place, step_b)).value for place in at_b]
        for (i, j), total in totals.items():
            builder.store(builder.call(multiply_add, [a[i], b[j], builder.load(total)]), total)
    for i, start in enumerate(places("c0", "cr", r, height)):
        across = builder.add(start, builder.mul(q, given["cq"]))
        for j in range(width):
            arrays["C"].store(across, Row(builder, builder.load(totals[i, j])))
            across = builder.add(across, given["cq"])


# Tiny networks side by side: sixteen of one shape, each in its own vector lane.
#
# A product of 16 × 16 numbers is too small to fill a register tile, and the call costs more than the arithmetic. So the
# lanes run over networks instead of columns: every number of the network is a row of sixteen, one for each network
# (lane_rows.py), and so is every sum of products (lane_products.py). Lanes are independent: the bits in one do not
# depend on the contents of the others.

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

"""Transposes of small square blocks, in registers: log₂ size rounds of interleaving."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gradlab.engines.fused.kernels.tile import INDEX, PADDING


@intrinsic
def transpose8(typing, W, w0, wr, T, t0, tr):
    """T[t0 + j·tr + k] = W[w0 + k·wr + j] for j, k < 8."""

    def generate(context, builder, signature, arguments):
        source, target = (
            _data(context, builder, signature, arguments, 0),
            _data(context, builder, signature, arguments, 3),
        )
        _, w0, wr, _, t0, tr = arguments
        starts = [builder.add(w0, builder.mul(wr, ir.Constant(INDEX, k))) for k in range(PADDING)]
        _transpose_quads(builder, source, starts, target, t0, tr)
        return context.get_dummy_value()

    n = types.int64
    return types.void(W, n, n, T, n, n), generate


@intrinsic
def transpose16(typing, P, starts, s0, k, T, t0, tr):
    """T[t0 + j·tr + i] = P[starts[s0 + i] + k + j] for i, j < 16: rows that lie anywhere."""

    def generate(context, builder, signature, arguments):
        source, rows, target = (_data(context, builder, signature, arguments, place) for place in (0, 1, 4))
        _, _, s0, k, _, t0, tr = arguments
        starts = [
            builder.add(builder.load(builder.gep(rows, [builder.add(s0, ir.Constant(INDEX, i))])), k) for i in range(16)
        ]
        _transpose(builder, source, starts, target, t0, tr)
        return context.get_dummy_value()

    n = types.int64
    return types.void(P, starts, n, n, T, n, n), generate


def _data(context: Any, builder: Any, signature: Any, arguments: Any, place: int) -> Any:
    return context.make_array(signature.args[place])(context, builder, arguments[place]).data


def _transpose(builder: Any, source: Any, starts: list[Any], target: Any, t0: Any, tr: Any) -> None:
    """The rows of a square block, each from its own start, become columns of the target."""
    size = len(starts)
    vector = ir.VectorType(source.type.pointee, size)
    masks = [[i // 2 + half + size * (i % 2) for i in range(size)] for half in (0, size // 2)]
    low, high = (ir.Constant(ir.VectorType(ir.IntType(32), size), mask) for mask in masks)

    def place(array: Any, at: Any) -> Any:
        return builder.bitcast(builder.gep(array, [at]), vector.as_pointer())

    rows = []
    for start in starts:
        rows.append(builder.load(place(source, start)))
        rows[-1].align = 1
    for _ in range(size.bit_length() - 1):
        pairs = [(rows[i], rows[i + size // 2]) for i in range(size // 2)]
        rows = [builder.shuffle_vector(a, b, mask) for a, b in pairs for mask in (low, high)]
    for j, row in enumerate(rows):
        at = builder.add(t0, builder.mul(tr, ir.Constant(INDEX, j)))
        builder.store(row, place(target, at)).align = 1


def _transpose_quads(builder: Any, source: Any, starts: list[Any], target: Any, t0: Any, tr: Any) -> None:
    """The same for 8 × 8 floats: rows are read in quarters of 4 × 4, so that every shuffle stays within 16 bytes.

    A vector of 32 bytes is two of 16 to the processor, and numbers that cross from one to the other cost more.
    """
    quad, whole = (ir.VectorType(source.type.pointee, size) for size in (4, 8))

    def mask(places: list[int]) -> Any:
        return ir.Constant(ir.VectorType(ir.IntType(32), 8), places)

    def load(start: Any, half: int) -> Any:
        place = builder.gep(source, [builder.add(start, ir.Constant(INDEX, 4 * half))])
        value = builder.load(builder.bitcast(place, quad.as_pointer()))
        value.align = 4
        return value

    low, high = mask([0, 8, 1, 9, 4, 12, 5, 13]), mask([2, 10, 3, 11, 6, 14, 7, 15])
    for half in (0, 1):
        rows = [
            builder.shuffle_vector(load(starts[i], half), load(starts[i + 4], half), mask(list(range(8))))
            for i in range(4)
        ]
        for _ in range(2):
            rows = [builder.shuffle_vector(rows[i], rows[i + 2], order) for i in (0, 1) for order in (low, high)]
        for j, row in enumerate(rows):
            at = builder.add(t0, builder.mul(tr, ir.Constant(INDEX, 4 * half + j)))
            builder.store(row, builder.bitcast(builder.gep(target, [at]), whole.as_pointer())).align = 4

"""The products of a layer, with the operations that follow them (the epilogue).

    forward     Z = X W          rows n, columns H, summed over K
    backward    dW = Xᵀ Δ        rows K, columns H, summed over n
                dX = Δ Wᵀ        rows n, columns K, summed over H (W is transposed first: it is small)

`tiles` covers C by register tiles two vectors wide (then one, then half of one), in stretches of p that keep the panel
of B near. `blas` asks BLAS and runs the same epilogue as a loop. Both have one signature, take bare
pointers, and are called by address: linked in, their code would be optimized again in every kernel above them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from gradlab.engines.fused.kernels.compiled import entry_point, kernel
from gradlab.engines.fused.kernels.tile import (
    ACCUMULATE,
    ADD_AFTER,
    ADD_BEFORE,
    BIAS,
    KEEP,
    KEEP_MASK,
    MASK,
    MASKED_COPY,
    RELU,
    lanes_of,
    make_strip,
    transpose8,
)

PANEL = 256
"""Longest stretch of p: 256 × 32 numbers of B are 32 KB in float32. Partial sums wait in C, so no bit depends on it."""

_strip4, _strip2, _strip1, _half = make_strip(4), make_strip(2), make_strip(1), make_strip(1, half=True)


def tiles(A, ar, ap, B, bp, C, cr, bias, E, Q, M, flags, rows, columns, P):
    """C[r, j] = Σ_p A[r·ar + p·ap] B[p·bp + j], epilogue by flags; columns are a multiple of 8. Bare pointers."""
    lanes = lanes_of(A)
    stretch = max(-(-P // max(-(-P // PANEL), 1)), 1)  # P in equal parts of at most PANEL
    for p in range(0, max(P, 1), stretch):
        length = min(stretch, P - p)
        now = flags
        if p > 0:
            now = (now & ~BIAS) | ACCUMULATE
        if p + length < P:
            now = now & (BIAS | ACCUMULATE)
        a, b = p * ap, p * bp
        j = 0
        while rows == 1 and columns - j >= 4 * lanes:
            _strip4(A, a, ar, ap, B, b + j, bp, length, C, j, cr, bias, j, E, Q, M, now, rows)
            j += 4 * lanes
        while columns - j >= 2 * lanes:
            _strip2(A, a, ar, ap, B, b + j, bp, length, C, j, cr, bias, j, E, Q, M, now, rows)
            j += 2 * lanes
        while columns - j >= lanes:
            _strip1(A, a, ar, ap, B, b + j, bp, length, C, j, cr, bias, j, E, Q, M, now, rows)
            j += lanes
        if columns - j > 0:  # half a vector: only where one is longer than what columns are padded to
            _half(A, a, ar, ap, B, b + j, bp, length, C, j, cr, bias, j, E, Q, M, now, rows)


def blas(A, ar, ap, B, bp, C, cr, bias, E, Q, M, flags, rows, columns, P):
    """The same with BLAS: transposes by flag (ap ≠ 1: Aᵀ; bp < 0: Bᵀ), no copies; the epilogue as a loop."""
    c = carray(C, (rows, columns))
    if ap != 1:
        np.dot(carray(A, (P, rows)).T, carray(B, (P, columns)), c)
    elif bp < 0:
        np.dot(carray(A, (rows, P)), carray(B, (columns, P)).T, c)
    else:
        np.dot(carray(A, (rows, P)), carray(B, (P, columns)), c)
    if flags == 0:
        return
    size = rows * columns
    v, e, q, m = carray(C, size), carray(E, size), carray(Q, size), carray(M, size)
    zero = v.dtype.type(0)
    if flags & BIAS:
        b = carray(bias, columns)
        for r in range(rows):
            row = carray(C, size)[r * columns : (r + 1) * columns]
            for k in range(columns):
                row[k] += b[k]
    if flags & ADD_BEFORE:
        for i in range(size):
            v[i] += e[i]
    if flags & RELU:
        for i in range(size):
            v[i] = zero if v[i] < zero else v[i]
    if flags & (KEEP | KEEP_MASK):  # here the numbers themselves are the mask
        for i in range(size):
            q[i] = v[i]
    if flags & ADD_AFTER:
        for i in range(size):
            v[i] += e[i]
    if flags & MASKED_COPY:
        for i in range(size):
            q[i] = v[i] if m[i] > zero else zero
    if flags & MASK:
        for i in range(size):
            v[i] = v[i] if m[i] > zero else zero


@cache
def address(simd: bool, dtype: str) -> int:
    """Return the address of the compiled product of this kind and precision (from the cache, or compiled now)."""
    pointer, n = types.CPointer(getattr(types, dtype)), types.int64
    signature = types.void(pointer, n, n, pointer, n, pointer, n, pointer, pointer, pointer, pointer, n, n, n, n)
    return int(entry_point(signature, tiles if simd else blas).address)


@intrinsic
def product(typing, at, A, ar, ap, B, bp, C, cr, bias, E, Q, M, flags, rows, columns, P):
    """Call the product at this address on arrays."""

    def generate(context, builder, signature, arguments):
        values = [
            context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args[1:], arguments[1:], strict=True)
        ]
        function = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        builder.call(builder.inttoptr(arguments[0], function.as_pointer()), values)
        return context.get_dummy_value()

    array, n = types.Array(A.dtype, 1, "C"), types.int64
    return types.void(n, array, n, n, array, n, array, n, array, array, array, array, n, n, n, n), generate


@kernel
def input_gradient(at, simd, D, W, T, DX, E, Q, M, flags, n, K, KC, KP, H, HP):
    """DX = D Wᵀ, then the epilogue. For tiles W is transposed into T first, HP × KP: its padding is 0 and stays 0."""
    if simd:
        whole = K - K % 8
        for k in range(0, whole, 8):
            for j in range(0, H, 8):
                transpose8(W, k * HP + j, HP, T, j * KP + k, KP)
        for k in range(whole, K):
            for j in range(H):
                T[j * KP + k] = W[k * HP + j]
        product(at, D, HP, 1, T, KP, DX, KP, T, E, Q, M, flags, n, KC, H)
    else:
        product(at, D, HP, 1, W, -HP, DX, KP, T, E, Q, M, flags, n, KC, H)


@kernel
def column_sums(at, simd, D, ones, out, n, HC, HP):
    """out[j] = Σ_r D[r, j], the gradient of a bias: a product with a row of ones (one number, read repeatedly)."""
    if simd:
        product(at, ones, 0, 0, D, HP, out, HP, out, out, out, out, 0, 1, HC, n)
        return
    for j in range(HP):
        out[j] = 0
    for r in range(n):
        for j in range(HP):
            out[j] += D[r * HP + j]

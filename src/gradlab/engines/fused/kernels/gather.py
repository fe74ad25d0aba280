"""Gather rows of the data set into a batch.

X[i, :] = stored[rows[i], :] · factor + offset        uint8 pixels, scaled
X[i, :] = values[rows[i], :]                          numbers that need no scaling
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gradlab.engines.fused.kernels.compiled import kernel, window

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

"""Which pixels of a batch are not 0, by columns, for the sums of sparse.py.

In blocks of 256 samples, for every run of four pixels k … k + 3: the samples in which one of them is not 0 (ascending),
and the levels of the four. Neighboring pixels are dark together, so a run of four holds few zeros.

    block 0   k = 0    samples 3, 17, 40    levels of k: 0, 255, 9    of k + 1: 12, 255, 0    …
              k = 4    …

Bytes are transposed and compressed in registers where the machine can; elsewhere loops give the same lists.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import Any

from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from gradlab.engines.fused.kernels.compiled import call, entry_point, kernel, window
from gradlab.engines.fused.kernels.tile import INDEX
from gradlab.engines.fused.kernels.transpose import transpose16

BLOCK = 256
"""Samples of a block: one byte says which."""
RUN = 4
"""Pixels of an entry; widths have to be a multiple of it."""
GROUP = 64
"""Samples that are looked at together."""


@kernel
def hold(at, data, rows, K, held):
    """The pixels of these rows, by columns, by the entry point at this address; `held` is a `Nonzero`."""
    n, plane = len(rows), len(held.samples)
    call(at, (data.pixels, rows, n, K, held.starts, held.columns, held.samples, held.levels, plane, held.bounds))


def fill(pixels, rows, n, K, starts, columns, samples, levels, plane, bounds):
    """What `hold` does, on bare pointers."""
    data, order = carray(pixels, 0), carray(rows, n)
    begin, turned = carray(starts, BLOCK), carray(columns, K * BLOCK)
    kept, of_kept, ends = carray(samples, plane), carray(levels, RUN * plane), carray(bounds, 0)
    place, runs = 0, K // RUN
    for block in range(-(-n // BLOCK)):
        first = block * BLOCK
        size = min(BLOCK, n - first)
        for i in range(size):
            begin[i] = order[first + i] * K
        _by_columns(data, begin, size, K, turned)
        own = window(ends, block * (runs + 1))
        own[0] = place
        for run in range(runs):
            place = _compress(turned, run * RUN * BLOCK, size, kept, of_kept, place)
            own[run + 1] = place


@cache
def address() -> int:
    """Where the compiled `fill` stands."""
    byte, whole, n = types.CPointer(types.uint8), types.CPointer(types.int64), types.int64
    signature = types.void(byte, whole, n, n, whole, byte, byte, byte, n, whole)
    return int(entry_point(signature, fill).address)


@kernel
def _by_columns(pixels, starts, size, K, columns):
    """columns[k, i] = pixels[starts[i] + k] for i < size."""
    whole, full = size - size % 16, K - K % 16
    for k in range(0, full, 16):
        for i in range(0, whole, 16):
            transpose16(pixels, starts, i, k, columns, k * BLOCK + i, BLOCK)
        for i in range(whole, size):
            for j in range(k, k + 16):
                columns[j * BLOCK + i] = pixels[starts[i] + j]
    for k in range(full, K):
        for i in range(size):
            columns[k * BLOCK + i] = pixels[starts[i] + k]


@kernel
def _compress(columns, start, size, samples, levels, place):
    """Append the samples and levels of one run behind `place`; gives where they end."""
    if can_compress():
        for i in range(0, size, GROUP):
            place = compress_group(columns, start + i, i, size, samples, levels, place)
        return place
    plane = len(samples)
    for i in range(size):
        some = False
        samples[place] = i
        for p in range(RUN):
            level = columns[start + p * BLOCK + i]
            levels[p * plane + place] = level
            some |= level != 0
        place += some
    return place


def _can_compress(context: Any) -> bool:
    return "+avx512vbmi2" in context.codegen().magic_tuple()[2].split(",")


@intrinsic
def can_compress(typing):
    """Whether the machine moves chosen bytes of a vector together in one instruction."""

    def generate(context, builder, signature, arguments):
        return ir.Constant(ir.IntType(1), _can_compress(context))

    return types.boolean(), generate


@intrinsic
def compress_group(typing, columns, start, first, size, samples, levels, place):
    """Append one run's entries of 64 samples from `first` on, below `size`; behind `place` there is room for all 64."""

    def generate(context, builder, signature, arguments):
        if not _can_compress(context):
            return arguments[6]  # never called there
        source, numbers, planes = (
            context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 4, 5)
        )
        plane = builder.extract_value(context.make_array(samples)(context, builder, arguments[4]).shape, 0)
        _, start, first, size, _, _, place = arguments
        vector, every = ir.VectorType(ir.IntType(8), GROUP), ir.VectorType(ir.IntType(32), GROUP)
        zero = ir.Constant(vector, [0] * GROUP)

        def at(array: Any, offset: Any) -> Any:
            return builder.bitcast(builder.gep(array, [offset]), vector.as_pointer())

        found = [builder.load(at(source, builder.add(start, ir.Constant(INDEX, p * BLOCK)))) for p in range(RUN)]
        for value in found:
            value.align = 1
        left, all64 = builder.sub(size, first), ir.Constant(INDEX, GROUP)
        below = builder.sub(builder.shl(ir.Constant(INDEX, 1), left), ir.Constant(INDEX, 1))
        below = builder.select(builder.icmp_signed("<", left, all64), below, ir.Constant(INDEX, -1))
        bits = ir.VectorType(ir.IntType(1), GROUP)
        chosen = builder.icmp_unsigned("!=", reduce(builder.or_, found), zero)
        chosen = builder.and_(chosen, builder.bitcast(below, bits))
        own = builder.insert_element(zero, builder.trunc(first, ir.IntType(8)), ir.Constant(ir.IntType(32), 0))
        base = builder.shuffle_vector(own, zero, ir.Constant(every, [0] * GROUP))
        number = builder.add(base, ir.Constant(vector, list(range(GROUP))))
        kind = ir.FunctionType(vector, [vector, vector, bits])
        together = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.avx512.mask.compress.v{GROUP}i8")
        builder.store(builder.call(together, [number, zero, chosen]), at(numbers, place)).align = 1
        for p, value in enumerate(found):
            offset = builder.add(place, builder.mul(plane, ir.Constant(INDEX, p)))
            builder.store(builder.call(together, [value, zero, chosen]), at(planes, offset)).align = 1
        return builder.add(place, builder.ctpop(builder.bitcast(chosen, INDEX)))

    n = types.int64
    return types.int64(columns, n, n, n, samples, levels, n), generate

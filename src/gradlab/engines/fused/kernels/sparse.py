"""The first layer on pixels of which most are 0: only what is not 0 is multiplied."""

from __future__ import annotations

from functools import cache, reduce
from typing import Any, NamedTuple

from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from gradlab.engines.fused.kernels.compiled import call, entry_point, kernel, window
from gradlab.engines.fused.kernels.product import product
from gradlab.engines.fused.kernels.tile import ACCUMULATE, BIAS, INDEX, PADDING, lanes_of, registers, transpose16

# Which pixels of a batch are not 0, by columns, for the sums of sparse.py.
#
# In blocks of 256 samples, for every run of four pixels k … k + 3: the samples in which one of them is not 0
# (ascending), and the levels of the four. Neighboring pixels are dark together, so a run of four holds few zeros.
#
#     block 0   k = 0    samples 3, 17, 40    levels of k: 0, 255, 9    of k + 1: 12, 255, 0    …
#               k = 4    …
#
# Bytes are transposed and compressed in registers where the machine can; elsewhere loops give the same lists.

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
def fill_address() -> int:
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


# The first layer on pixels of which most are 0: only what is not 0 is multiplied.
#
# With x = f p + o (p a pixel, f and o the scaling of the data set: factor and offset)
#
#     Z[i, :] = (b + o Σ_k W[k, :]) + Σ_k f p[i, k] W[k, :]        sums over p[i, k] ≠ 0 alone,
#     dW[k, :] = o Σ_i δ[i, :] + Σ_i f p[i, k] δ[i, :]             k and i ascending
#
# which is x W + b and Xᵀ δ with the constant part taken out of the sum: other roundings, so another path in the ids.
# What is not finite in W or δ is in the constant part too (0 · ∞ is NaN), so it is never lost.


class Lists(NamedTuple):
    """The entries of a batch (nonzero.py): samples, levels of their pixels, and f · level for every level."""

    samples: Any
    levels: Any
    scale: Any


def make_sum(vectors: int, *, half: bool, gradient: bool) -> Any:
    """The intrinsic that adds what one run of pixels contributes, to a few vectors of columns.

    For every entry e of its list and every pixel p of the run, i = samples[e] and x = scale[levels[p, e]]:

        forward     C[c0 + i·cr + :] += x · B[b0 + p·br + :]
        gradient    C[c0 + p·cr + :] += x · B[b0 + i·br + :]
    """

    @intrinsic
    def add(typing, held, e0, e1, B, b0, br, C, c0, cr):
        def generate(context, builder, signature, arguments):
            values = dict(zip(held.fields, cgutils.unpack_tuple(builder, arguments[0]), strict=True))
            kinds = dict(zip(held.fields, held.types, strict=True))
            arrays = {
                name: context.make_array(kinds[name])(context, builder, values[name])
                for name in ("samples", "levels", "scale")
            }
            arrays |= {
                name: context.make_array(signature.args[place])(context, builder, arguments[place])
                for name, place in (("B", 3), ("C", 6))
            }
            _, e0, e1, _, b0, br, _, c0, cr = arguments
            lanes = registers(context).lanes(context.get_value_type(B.dtype)) // (2 if half else 1)
            if half and lanes % PADDING:
                return context.get_dummy_value()  # no columns are left for half a vector
            plane = builder.extract_value(arrays["samples"].shape, 0)
            emit = _Emitter(builder, {name: array.data for name, array in arrays.items()}, plane, vectors, lanes)
            (emit.gradient if gradient else emit.forward)((e0, e1), (b0, br), (c0, cr))
            return context.get_dummy_value()

        n = types.int64
        return types.void(held, n, n, B, n, n, C, n, n), generate

    return add


class _Emitter:
    """Emits the loop over one list."""

    def __init__(self, builder: Any, arrays: dict[str, Any], plane: Any, vectors: int, lanes: int) -> None:
        self.b, self.arrays, self.plane = builder, arrays, plane
        self.vectors, self.lanes = range(vectors), lanes
        scalar = arrays["B"].type.pointee
        self.vector, self.single = ir.VectorType(scalar, lanes), isinstance(scalar, ir.FloatType)
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        name = f"llvm.fmuladd.v{lanes}{'f32' if self.single else 'f64'}"
        self.multiply_add = cgutils.get_or_insert_function(builder.module, kind, name)

    def _place(self, name: str, start: Any, v: int) -> Any:
        at = self.b.add(start, ir.Constant(INDEX, self.lanes * v))
        return self.b.bitcast(self.b.gep(self.arrays[name], [at]), self.vector.as_pointer())

    def _load(self, name: str, start: Any) -> list[Any]:
        found = [self.b.load(self._place(name, start, v)) for v in self.vectors]
        for value in found:
            value.align = 4 if self.single else 8
        return found

    def _store(self, start: Any, values: list[Any]) -> None:
        for v, value in enumerate(values):
            self.b.store(value, self._place("C", start, v)).align = 4 if self.single else 8

    def _number(self, name: str, at: Any) -> Any:
        return self.b.load(self.b.gep(self.arrays[name], [at]))

    def _row(self, e: Any, start: Any, stride: Any) -> Any:
        """Where the row of an entry's sample is."""
        return self.b.add(start, self.b.mul(self.b.zext(self._number("samples", e), INDEX), stride))

    def _pixel(self, e: Any, p: int) -> Any:
        """A pixel of an entry, in every lane."""
        level = self._number("levels", self.b.add(e, self.b.mul(self.plane, ir.Constant(INDEX, p))))
        x = self._number("scale", self.b.zext(level, INDEX))
        empty = ir.Constant(self.vector, ir.Undefined)
        first = self.b.insert_element(empty, x, ir.Constant(ir.IntType(32), 0))
        order = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.b.shuffle_vector(first, empty, order)

    def _add(self, x: Any, factors: list[Any], sums: list[Any]) -> list[Any]:
        return [self.b.call(self.multiply_add, [x, *pair]) for pair in zip(factors, sums, strict=True)]

    def _run(self, start: Any, stride: Any) -> list[Any]:
        return [self.b.add(start, self.b.mul(stride, ir.Constant(INDEX, p))) for p in range(RUN)]

    def _each(self, entries: tuple[Any, Any]) -> Any:
        return cgutils.for_range_slice(self.b, *entries, ir.Constant(INDEX, 1), INDEX)

    def forward(self, entries: tuple[Any, Any], of_b: tuple[Any, Any], of_c: tuple[Any, Any]) -> None:
        """The run's rows of B stay in registers, rows of C come and go."""
        weights = [self._load("B", start) for start in self._run(*of_b)]
        with self._each(entries) as (e, _):
            at = self._row(e, *of_c)
            sums = self._load("C", at)
            for p in range(RUN):
                sums = self._add(self._pixel(e, p), weights[p], sums)
            self._store(at, sums)

    def gradient(self, entries: tuple[Any, Any], of_b: tuple[Any, Any], of_c: tuple[Any, Any]) -> None:
        """The run's rows of C stay in registers, rows of B come."""
        rows = self._run(*of_c)
        sums = [[cgutils.alloca_once_value(self.b, value) for value in self._load("C", row)] for row in rows]
        with self._each(entries) as (e, _):
            row = self._load("B", self._row(e, *of_b))
            for p in range(RUN):
                for total, value in zip(
                    sums[p], self._add(self._pixel(e, p), row, [self.b.load(s) for s in sums[p]]), strict=True
                ):
                    self.b.store(value, total)
        for start, totals in zip(rows, sums, strict=True):
            self._store(start, [self.b.load(total) for total in totals])


_shapes = ((2, False), (1, False), (1, True))
_row2, _row1, _row_half = (make_sum(vectors, half=half, gradient=False) for vectors, half in _shapes)
_sum2, _sum1, _sum_half = (make_sum(vectors, half=half, gradient=True) for vectors, half in _shapes)


def add_rows(samples, levels, scale, plane, bounds, strip, n, K, w, z, HC, HP):
    """Z[i, :] += Σ_k f p[i, k] W[k, :]. Bare pointers."""
    held = Lists(carray(samples, plane), carray(levels, RUN * plane), carray(scale, 256))
    _add_rows(held, carray(bounds, 0), carray(strip, 0), n, K, carray(w, 0), carray(z, 0), HC, HP)


def add_gradients(samples, levels, scale, plane, bounds, strip, n, K, delta, g, HC, HP):
    """dW[k, :] += Σ_i f p[i, k] δ[i, :]. Bare pointers."""
    held = Lists(carray(samples, plane), carray(levels, RUN * plane), carray(scale, 256))
    _add_gradients(held, carray(bounds, 0), carray(strip, 0), n, K, carray(delta, 0), carray(g, 0), HC, HP)


@cache
def sum_address(gradient: bool, dtype: str) -> int:
    """Where the compiled sum stands, forward or for the gradient."""
    number, byte = types.CPointer(getattr(types, dtype)), types.CPointer(types.uint8)
    whole, n = types.CPointer(types.int64), types.int64
    signature = types.void(byte, byte, number, n, whole, number, n, n, number, number, n, n)
    return int(entry_point(signature, add_gradients if gradient else add_rows).address)


@kernel
def _add_rows(held, bounds, strip, n, K, w, z, HC, HP):
    lanes, runs = lanes_of(w), K // RUN
    for block in range(-(-n // BLOCK)):
        ends, rows = window(bounds, block * (runs + 1)), window(z, block * BLOCK * HP)
        size, j = min(BLOCK, n - block * BLOCK), 0
        while HC - j >= 2 * lanes:
            if 2 * lanes < HP:  # rows of many kilobytes would share few places of the first-level cache
                _copy(window(rows, j), HP, strip, 2 * lanes, size, 2 * lanes)
                for r in range(runs):
                    _row2(held, ends[r], ends[r + 1], w, r * RUN * HP + j, HP, strip, 0, 2 * lanes)
                _copy(strip, 2 * lanes, window(rows, j), HP, size, 2 * lanes)
            else:
                for r in range(runs):
                    _row2(held, ends[r], ends[r + 1], w, r * RUN * HP + j, HP, rows, j, HP)
            j += 2 * lanes
        while HC - j >= lanes:
            for r in range(runs):
                _row1(held, ends[r], ends[r + 1], w, r * RUN * HP + j, HP, rows, j, HP)
            j += lanes
        if HC - j > 0:
            for r in range(runs):
                _row_half(held, ends[r], ends[r + 1], w, r * RUN * HP + j, HP, rows, j, HP)


@kernel
def _add_gradients(held, bounds, strip, n, K, delta, g, HC, HP):
    lanes, runs = lanes_of(g), K // RUN
    for block in range(-(-n // BLOCK)):
        ends, rows = window(bounds, block * (runs + 1)), window(delta, block * BLOCK * HP)
        size, j = min(BLOCK, n - block * BLOCK), 0
        while HC - j >= 2 * lanes:
            if 2 * lanes < HP:
                _copy(window(rows, j), HP, strip, 2 * lanes, size, 2 * lanes)
                for r in range(runs):
                    _sum2(held, ends[r], ends[r + 1], strip, 0, 2 * lanes, g, r * RUN * HP + j, HP)
            else:
                for r in range(runs):
                    _sum2(held, ends[r], ends[r + 1], rows, j, HP, g, r * RUN * HP + j, HP)
            j += 2 * lanes
        while HC - j >= lanes:
            for r in range(runs):
                _sum1(held, ends[r], ends[r + 1], rows, j, HP, g, r * RUN * HP + j, HP)
            j += lanes
        if HC - j > 0:
            for r in range(runs):
                _sum_half(held, ends[r], ends[r + 1], rows, j, HP, g, r * RUN * HP + j, HP)


@kernel
def _copy(x, xr, y, yr, rows, columns):
    for i in range(rows):
        a, b = window(x, i * xr), window(y, i * yr)
        for j in range(columns):
            b[j] = a[j]


@kernel
def sparse_layer(network, held, w, out, bias, E, Q, M, flags, n, K, HC, HP):
    """x W + b on the pixels held, then the epilogue of a tile (tile.py) by `flags`."""
    at, start, one, offset = network.product, held.start, held.one, held.offset[0]
    product(at, one, 0, 0, w, HP, start, HP, start, start, start, start, 0, 1, HC, K)
    for j in range(HC):
        start[j] = start[j] * offset + (bias[j] if flags & BIAS else 0)
    product(at, one, 0, 0, w, HP, out, HP, start, out, out, out, BIAS, n, HC, 0)
    lists = held.samples, held.levels, held.scale, len(held.samples), held.bounds, held.strip
    call(network.sparse_rows, (*lists, n, K, w, out, HC, HP))
    rest = flags & ~BIAS
    if rest != 0:
        product(at, one, 0, 0, w, HP, out, HP, start, E, Q, M, rest | ACCUMULATE, n, HC, 0)


@kernel
def sparse_gradient(network, held, delta, g, n, K, HC, HP):
    """Xᵀ δ on the pixels held."""
    at, start = network.product, held.start
    product(at, held.one, 0, 0, delta, HP, start, HP, start, start, start, start, 0, 1, HC, n)
    product(at, held.offset, 0, 0, start, HP, g, HP, g, g, g, g, 0, K, HC, 1)
    lists = held.samples, held.levels, held.scale, len(held.samples), held.bounds, held.strip
    call(network.sparse_sums, (*lists, n, K, delta, g, HC, HP))

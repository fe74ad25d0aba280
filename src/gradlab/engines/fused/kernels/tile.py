"""A register tile: a few rows × a few vectors of a matrix product, written straight into LLVM's vector types.

    C[r, j] = Σ_p A[r, p] · B[p, j]        r < rows, j < lanes · vectors, p < P

Each accumulator is one `<lanes x T>` value, T float or double; how long vectors are and how many rows a tile has is
chosen for the machine when the kernels are compiled (`Registers`), from one description. Every C[r, j] is one chain of
multiply-adds in the order of p, in whichever tile it lies: neither the shape of a tile nor its lanes change a bit. A is
read one number at a time and spread over the lanes; its two strides decide whether the product is A·B or Aᵀ·B.
`llvm.fmuladd` contracts to one instruction where the hardware has it, and to two where it has not.

The sum is followed by an epilogue, chosen by flags at run time (one test per tile): the operations that follow a
product in a network are done while the numbers are still in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

PADDING = 8
"""Columns come in multiples of this, on every machine."""
INDEX = ir.IntType(64)


@dataclass(frozen=True)
class Registers:
    """What a tile may fill: number and bytes of vectors, and heights of tiles of two vectors, the tallest first."""

    count: int
    bytes: int
    heights: tuple[int, ...]

    def lanes(self, scalar: Any) -> int:
        """Numbers in a vector."""
        return min(self.bytes // _size(scalar), 2 * PADDING)


def registers(context: Any) -> Registers:
    """Of the machine that numba compiles for: 32 vectors of 64 bytes with AVX-512, else 16 vectors of 32 are assumed.

    12 × 2 accumulators leave 8 vectors for what is multiplied, 6 × 2 leave 4.
    """
    features = context.codegen().magic_tuple()[2].split(",")
    return Registers(32, 64, (12, 4, 2, 1)) if "+avx512f" in features else Registers(16, 32, (6, 4, 2, 1))


ACCUMULATE = 1
"""Start from C instead of 0."""
BIAS = 2
"""Start from the bias (a row vector)."""
ADD_BEFORE = 4
"""v += E, before the nonlinearity."""
RELU = 8
"""v = max(v, 0), NaN kept."""
KEEP = 16
"""Q = v."""
KEEP_MASK = 256
"""Q = where v > 0, for MASK and MASKED_COPY to read: one bit per number, in a byte for every four (see `_mask_at`)."""
ADD_AFTER = 32
"""v += E, after the nonlinearity."""
MASKED_COPY = 64
"""Q = v where the mask M says so, else 0."""
MASK = 128
"""v = v where the mask M says so, else 0."""


def make_strip(vectors: int, *, half: bool = False) -> Any:
    """The intrinsic that covers a strip of C, all its rows and a few vectors of columns, by tiles.

    Arguments (arrays are bare pointers): A, its start, row stride, step stride; B, its start, step stride; P; C, its
    start, row stride; bias and its start; E, Q, M (laid out like C); flags; rows. `half`: vectors of half the length.
    """

    @intrinsic
    def strip(typing, A, a0, ar, ap, B, b0, bp, P, C, c0, cr, bias, j0, E, Q, M, flags, rows):
        def generate(context, builder, signature, arguments):
            places = {"A": 0, "B": 4, "C": 8, "bias": 11, "E": 13, "Q": 14, "M": 15}
            arrays = {name: arguments[place] for name, place in places.items()}
            _, a0, ar, ap, _, b0, bp, P, _, c0, cr, _, j0, _, _, _, flags, rows = arguments
            machine = registers(context)
            lanes = machine.lanes(arrays["A"].type.pointee) // (2 if half else 1)
            if lanes % PADDING and half:
                return context.get_dummy_value()  # no columns are left for half a vector
            done = cgutils.alloca_once_value(builder, ir.Constant(INDEX, 0))
            for height in machine.heights if vectors <= 2 else (1,):
                with while_left(builder, done, rows, height) as r:
                    emit = _Emitter(builder, arrays, height, vectors, lanes)
                    at_c = builder.add(c0, builder.mul(r, cr))
                    emit.start(at_c, cr, j0, flags)
                    emit.sum(builder.add(a0, builder.mul(r, ar)), ar, ap, b0, bp, P)
                    emit.epilogue(at_c, cr, flags)
            return context.get_dummy_value()

        n = types.int64
        signature = types.void(A, n, n, n, A, n, n, n, A, n, n, A, n, A, A, A, n, n)
        return signature, generate

    return strip


@contextmanager
def while_left(builder: Any, done: Any, rows: Any, height: int) -> Iterator[Any]:
    """Repeat what is emitted inside while `height` rows are left; gives the first of them."""
    test, body, after = (builder.append_basic_block(name) for name in ("left", "tile", "covered"))
    builder.branch(test)
    builder.position_at_end(test)
    r = builder.load(done)
    enough = builder.icmp_signed(">=", builder.sub(rows, r), ir.Constant(INDEX, height))
    builder.cbranch(enough, body, after)
    builder.position_at_end(body)
    yield r
    builder.store(builder.add(r, ir.Constant(INDEX, height)), done)
    builder.branch(test)
    builder.position_at_end(after)


@intrinsic
def lanes_of(typing, A):
    """How many numbers of this array's (or pointer's) kind a vector holds, a constant of the machine."""

    def generate(context, builder, signature, arguments):
        scalar = context.get_value_type(A.dtype)
        return ir.Constant(INDEX, registers(context).lanes(scalar))

    return types.int64(A), generate


class _Emitter:
    """Emits the instructions of one tile."""

    def __init__(self, builder: Any, arrays: dict[str, Any], rows: int, vectors: int, lanes: int) -> None:
        self.b = builder
        self.arrays = arrays
        self.scalar = arrays["A"].type.pointee
        self.lanes = lanes
        self.vector = ir.VectorType(self.scalar, lanes)
        self.zero = ir.Constant(self.vector, [0.0] * lanes)
        self.places = [(r, v) for r in range(rows) for v in range(vectors)]
        self.rows, self.vectors = rows, vectors
        self.sums = {place: cgutils.alloca_once(builder, self.vector) for place in self.places}

    # ------------------------------------------------------------ small pieces

    def _at(self, name: str, offset: Any) -> Any:
        return self.b.bitcast(self.b.gep(self.arrays[name], [offset]), self.vector.as_pointer())

    def _load(self, name: str, offset: Any) -> Any:
        value = self.b.load(self._at(name, offset))
        value.align = _size(self.scalar)
        return value

    def _store(self, name: str, offset: Any, value: Any) -> None:
        self.b.store(value, self._at(name, offset)).align = _size(self.scalar)

    def _mask_at(self, name: str, offset: Any) -> Any:
        """Where the mask of a vector stands: vectors of 4, 8 and 16 numbers are 1, 2 and 4 bytes apart."""
        bytes_of = self.b.bitcast(self.arrays[name], ir.IntType(8).as_pointer())
        place = self.b.gep(bytes_of, [self.b.lshr(offset, ir.Constant(INDEX, 2))])
        return self.b.bitcast(place, ir.IntType(max(self.lanes, 8)).as_pointer())

    def _load_mask(self, name: str, offset: Any) -> Any:
        bits = self.b.load(self._mask_at(name, offset))
        bits.align = 1
        if self.lanes < 8:
            bits = self.b.trunc(bits, ir.IntType(self.lanes))
        return self.b.bitcast(bits, ir.VectorType(ir.IntType(1), self.lanes))

    def _store_mask(self, name: str, offset: Any, mask: Any) -> None:
        bits = self.b.bitcast(mask, ir.IntType(self.lanes))
        if self.lanes < 8:
            bits = self.b.zext(bits, ir.IntType(8))
        self.b.store(bits, self._mask_at(name, offset)).align = 1

    def _spread(self, offset: Any) -> Any:
        scalar = self.b.load(self.b.gep(self.arrays["A"], [offset]))
        empty = ir.Constant(self.vector, ir.Undefined)
        first = self.b.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
        return self.b.shuffle_vector(
            first, empty, ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        )

    def _offsets(self, start: Any, stride: Any) -> dict[tuple[int, int], Any]:
        rows = [start]
        for _ in range(self.rows - 1):
            rows.append(self.b.add(rows[-1], stride))
        return {(r, v): self.b.add(rows[r], ir.Constant(INDEX, self.lanes * v)) for r, v in self.places}

    def _if(self, flags: Any, flag: int) -> Any:
        chosen = self.b.and_(flags, ir.Constant(INDEX, flag))
        return self.b.if_then(self.b.icmp_signed("!=", chosen, ir.Constant(INDEX, 0)))

    def _each(self, change: Any) -> None:
        for place in self.places:
            self.b.store(change(place, self.b.load(self.sums[place])), self.sums[place])

    # ------------------------------------------------------------- the tile

    def start(self, c0: Any, cr: Any, j0: Any, flags: Any) -> None:
        """Start from 0, the bias, or the contents of C."""
        for place in self.places:
            self.b.store(self.zero, self.sums[place])
        with self._if(flags, BIAS):
            row = [self._load("bias", self.b.add(j0, ir.Constant(INDEX, self.lanes * v))) for v in range(self.vectors)]
            self._each(lambda place, _: row[place[1]])
        with self._if(flags, ACCUMULATE):
            offsets = self._offsets(c0, cr)
            self._each(lambda place, _: self._load("C", offsets[place]))

    def sum(self, a0: Any, ar: Any, ap: Any, b0: Any, bp: Any, P: Any) -> None:
        """Add A[r, p] B[p, :] for every p."""
        fused = ir.FunctionType(self.vector, [self.vector] * 3)
        name = f"llvm.fmuladd.v{self.lanes}{'f32' if isinstance(self.scalar, ir.FloatType) else 'f64'}"
        multiply_add = cgutils.get_or_insert_function(self.b.module, fused, name)
        row_starts = [a0]
        for _ in range(self.rows - 1):
            row_starts.append(self.b.add(row_starts[-1], ar))
        with cgutils.for_range(self.b, P, intp=INDEX) as loop:
            at_b = self.b.add(b0, self.b.mul(loop.index, bp))
            columns = [
                self._load("B", self.b.add(at_b, ir.Constant(INDEX, self.lanes * v))) for v in range(self.vectors)
            ]
            step = self.b.mul(loop.index, ap)
            for r in range(self.rows):
                a = self._spread(self.b.add(row_starts[r], step))
                for v in range(self.vectors):
                    total = self.b.load(self.sums[r, v])
                    self.b.store(self.b.call(multiply_add, [a, columns[v], total]), self.sums[r, v])

    def epilogue(self, c0: Any, cr: Any, flags: Any) -> None:
        """Apply the operations of the flags, then store C = v."""
        offsets = self._offsets(c0, cr)

        def add(place: Any, value: Any) -> Any:
            return self.b.fadd(value, self._load("E", offsets[place]))

        def relu(place: Any, value: Any) -> Any:
            return self.b.select(self.b.fcmp_ordered("<", value, self.zero), self.zero, value)  # keeps NaN

        def masked(place: Any, value: Any) -> Any:
            return self.b.select(self._load_mask("M", offsets[place]), value, self.zero)

        with self._if(flags, ADD_BEFORE):
            self._each(add)
        with self._if(flags, RELU):
            self._each(relu)
        with self._if(flags, KEEP):
            for place in self.places:
                self._store("Q", offsets[place], self.b.load(self.sums[place]))
        with self._if(flags, KEEP_MASK):
            for place in self.places:
                alive = self.b.fcmp_ordered(">", self.b.load(self.sums[place]), self.zero)
                self._store_mask("Q", offsets[place], alive)
        with self._if(flags, ADD_AFTER):
            self._each(add)
        with self._if(flags, MASKED_COPY):
            for place in self.places:
                self._store("Q", offsets[place], masked(place, self.b.load(self.sums[place])))
        with self._if(flags, MASK):
            self._each(masked)
        for place in self.places:
            self._store("C", offsets[place], self.b.load(self.sums[place]))


def _size(scalar: Any) -> int:
    return 4 if isinstance(scalar, ir.FloatType) else 8


# Transposes of small square blocks, in registers: log₂ size rounds of interleaving.


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

"""A register tile: a few rows × 8 or 16 columns of a matrix product, in LLVM's vector types.

    C[r, j] = Σ_p A[r, p] · B[p, j]        r < rows, j < 8 · vectors, p < P

Each accumulator is one `<8 x T>` value, T float or double: LLVM lowers it to whatever the machine has, so the
source is the same on every processor and for both precisions. A is read one number at a time and broadcast to the
lanes; its two strides decide whether the product is A·B or Aᵀ·B. `llvm.fmuladd` contracts to one instruction where
the hardware has it, and to two otherwise.

The sum is followed by an epilogue, chosen by flags at run time (one test per tile): the operations that follow a
product in a network are done while the numbers are still in registers.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
INDEX = ir.IntType(64)

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
ADD_AFTER = 32
"""v += E, after the nonlinearity."""
MASKED_COPY = 64
"""Q = v where M > 0, else 0."""
MASK = 128
"""v = v where M > 0, else 0."""


def make_tile(rows: int, vectors: int) -> Any:
    """Return the intrinsic for tiles of this shape.

    Arguments (arrays are bare pointers): A, its start, row stride, step stride; B, its start, step stride; P; C, its
    start, row stride; bias and its start; E, Q, M (laid out like C); flags.
    """

    @intrinsic
    def tile(typing, A, a0, ar, ap, B, b0, bp, P, C, c0, cr, bias, j0, E, Q, M, flags):
        def generate(context, builder, signature, arguments):
            places = {"A": 0, "B": 4, "C": 8, "bias": 11, "E": 13, "Q": 14, "M": 15}
            arrays = {name: arguments[place] for name, place in places.items()}
            _, a0, ar, ap, _, b0, bp, P, _, c0, cr, _, j0, _, _, _, flags = arguments
            emit = _Emitter(builder, arrays, rows, vectors)
            emit.start(c0, cr, j0, flags)
            emit.sum(a0, ar, ap, b0, bp, P)
            emit.epilogue(c0, cr, flags)
            return context.get_dummy_value()

        n = types.int64
        signature = types.void(A, n, n, n, A, n, n, n, A, n, n, A, n, A, A, A, n)
        return signature, generate

    return tile


class _Emitter:
    """Emits the instructions of one tile."""

    def __init__(self, builder: Any, arrays: dict[str, Any], rows: int, vectors: int) -> None:
        self.b = builder
        self.arrays = arrays
        self.scalar = arrays["A"].type.pointee
        self.vector = ir.VectorType(self.scalar, LANES)
        self.zero = ir.Constant(self.vector, [0.0] * LANES)
        self.places = [(r, v) for r in range(rows) for v in range(vectors)]
        self.rows, self.vectors = rows, vectors
        self.sums = {place: cgutils.alloca_once(builder, self.vector) for place in self.places}

    # ------------------------------------------------------------ small pieces

    def _at(self, name: str, offset: Any) -> Any:
        return self.b.bitcast(self.b.gep(self.arrays[name], [offset]), self.vector.as_pointer())

    def _load(self, name: str, offset: Any) -> Any:
        value = self.b.load(self._at(name, offset))
        value.align = 4 if isinstance(self.scalar, ir.FloatType) else 8
        return value

    def _store(self, name: str, offset: Any, value: Any) -> None:
        self.b.store(value, self._at(name, offset)).align = 4 if isinstance(self.scalar, ir.FloatType) else 8

    def _spread(self, offset: Any) -> Any:
        scalar = self.b.load(self.b.gep(self.arrays["A"], [offset]))
        empty = ir.Constant(self.vector, ir.Undefined)
        first = self.b.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
        return self.b.shuffle_vector(first, empty, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

    def _offsets(self, start: Any, stride: Any) -> dict[tuple[int, int], Any]:
        rows = [start]
        for _ in range(self.rows - 1):
            rows.append(self.b.add(rows[-1], stride))
        return {(r, v): self.b.add(rows[r], ir.Constant(INDEX, LANES * v)) for r, v in self.places}

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
            row = [self._load("bias", self.b.add(j0, ir.Constant(INDEX, LANES * v))) for v in range(self.vectors)]
            self._each(lambda place, _: row[place[1]])
        with self._if(flags, ACCUMULATE):
            offsets = self._offsets(c0, cr)
            self._each(lambda place, _: self._load("C", offsets[place]))

    def sum(self, a0: Any, ar: Any, ap: Any, b0: Any, bp: Any, P: Any) -> None:
        """Add A[r, p] B[p, :] for every p."""
        fused = ir.FunctionType(self.vector, [self.vector] * 3)
        name = f"llvm.fmuladd.v{LANES}{'f32' if isinstance(self.scalar, ir.FloatType) else 'f64'}"
        multiply_add = cgutils.get_or_insert_function(self.b.module, fused, name)
        row_starts = [a0]
        for _ in range(self.rows - 1):
            row_starts.append(self.b.add(row_starts[-1], ar))
        with cgutils.for_range(self.b, P, intp=INDEX) as loop:
            at_b = self.b.add(b0, self.b.mul(loop.index, bp))
            columns = [self._load("B", self.b.add(at_b, ir.Constant(INDEX, LANES * v))) for v in range(self.vectors)]
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
            alive = self.b.fcmp_ordered(">", self._load("M", offsets[place]), self.zero)
            return self.b.select(alive, value, self.zero)

        with self._if(flags, ADD_BEFORE):
            self._each(add)
        with self._if(flags, RELU):
            self._each(relu)
        with self._if(flags, KEEP):
            for place in self.places:
                self._store("Q", offsets[place], self.b.load(self.sums[place]))
        with self._if(flags, ADD_AFTER):
            self._each(add)
        with self._if(flags, MASKED_COPY):
            for place in self.places:
                self._store("Q", offsets[place], masked(place, self.b.load(self.sums[place])))
        with self._if(flags, MASK):
            self._each(masked)
        for place in self.places:
            self._store("C", offsets[place], self.b.load(self.sums[place]))


@intrinsic
def transpose8(typing, W, w0, wr, T, t0, tr):
    """T[t0 + j·tr + k] = W[w0 + k·wr + j] for j, k < 8: three rounds of interleaving, in registers."""

    def generate(context, builder, signature, arguments):
        source = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        target = context.make_array(signature.args[3])(context, builder, arguments[3]).data
        _, w0, wr, _, t0, tr = arguments
        scalar = source.type.pointee
        vector, size = ir.VectorType(scalar, LANES), 4 if isinstance(scalar, ir.FloatType) else 8
        masks = [[i // 2 + half + LANES * (i % 2) for i in range(LANES)] for half in (0, LANES // 2)]
        low, high = (ir.Constant(ir.VectorType(ir.IntType(32), LANES), mask) for mask in masks)
        rows = []
        for k in range(LANES):
            at = builder.add(w0, builder.mul(wr, ir.Constant(INDEX, k)))
            row = builder.load(builder.bitcast(builder.gep(source, [at]), vector.as_pointer()))
            row.align = size
            rows.append(row)
        for _ in range(3):
            pairs = [(rows[i], rows[i + LANES // 2]) for i in range(LANES // 2)]
            rows = [builder.shuffle_vector(a, b, mask) for a, b in pairs for mask in (low, high)]
        for j in range(LANES):
            at = builder.add(t0, builder.mul(tr, ir.Constant(INDEX, j)))
            builder.store(rows[j], builder.bitcast(builder.gep(target, [at]), vector.as_pointer())).align = size
        return context.get_dummy_value()

    n = types.int64
    return types.void(W, n, n, T, n, n), generate

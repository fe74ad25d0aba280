"""The products of tiny networks: sums over p of A[r, p] · B[p, q] where every entry is a row, one number per network.

    z[s, j] = b[j] + Σ_k x[s, k] W[k, j]        g_W[k, j] = Σ_s x[s, k] δ[s, j]        d[s, k] = Σ_j δ[s, j] W[k, j]

One loop serves all three: strides decide what is transposed. A block of sums stays in registers, so that every row that
is loaded serves several of them, and their chains of additions overlap.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gradlab.engines.fused.kernels.lane_rows import NETS, Row, Rows
from gradlab.engines.fused.kernels.tile import INDEX, registers, while_left


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

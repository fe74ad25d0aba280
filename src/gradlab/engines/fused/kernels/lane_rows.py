"""Rows of sixteen numbers, one per network, in vector registers, and the loops over them: updates and square errors.

An equation is plain Python on `Row`s; it runs once, when the kernels are compiled, and emits the instructions of its
operators. Nothing is contracted or reordered: a + b · c rounds twice, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gradlab.engines.fused.kernels.tile import INDEX

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

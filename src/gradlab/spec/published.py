"""Published numbers: what a write-up states, at the precision at which it states it, and where it stands.

A number as it was printed means every number that rounds to it: `0.063` is 0.0625 to 0.0635, `0.0630` is 0.06295 to
0.06305. A float in YAML has lost its last zeros, so a number may also be a string: `"0.0630"`, `"~0.9"`, or a range
such as `"0.96–0.97"`, which covers what rounds to either end or lies between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gradlab.errors import shortened
from gradlab.spec.base import Frozen, spec_error
from gradlab.spec.place import At, Label, Text

Origin = Literal["text", "figure", "code"]
"""Where a write-up states something: in its text, in a figure, or in its public code and saved results."""
LARGE = 1e6
"""From here on whole numbers are taken to be printed as 1.06e8."""
_RANGE = re.compile(r"(?<=[0-9])\s*(?:–|-|to|…)\s*(?=[-+.0-9])")


@dataclass(frozen=True)
class Stated:
    """A published number: every value that rounds to what was printed."""

    text: str
    low: float
    high: float

    @property
    def value(self) -> float:
        """The number as printed; of a range its middle."""
        return (self.low + self.high) / 2

    def overlaps(self, low: float, high: float) -> bool:
        """Whether a value between these ends rounds to it."""
        return self.low <= high and low <= self.high


def read_stated(printed: float | str) -> Stated:
    """Read a published number; a `ValueError` if it is not one."""
    text = printed.strip() if isinstance(printed, str) else _as_printed(printed)
    plain = text.lstrip("~≈ ").replace("×10^", "e").replace(",", "")
    ends = [_rounded(piece) for piece in _RANGE.split(plain)]
    if len(ends) > 2 or ends[0][0] > ends[-1][0]:
        raise ValueError(f"{shortened(text)} is not a number")
    return Stated(text, float(ends[0][0]), float(ends[-1][1]))


def _as_printed(number: float) -> str:
    """The shortest digits of a float: 5.0 was written as 5, 106000000.0 as 1.06e8."""
    if float(number).is_integer() and abs(number) < LARGE:
        return str(int(number))
    return str(Decimal(repr(number)).normalize()).replace("E+", "e").replace("E", "e")


def _rounded(piece: str) -> tuple[Decimal, Decimal]:
    """Between which numbers those lie that round to this one."""
    try:
        number = Decimal(piece.strip())
    except InvalidOperation:
        raise ValueError(f"{shortened(piece)} is not a number") from None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"{shortened(piece)} is not a finite number")
    half = Decimal(1).scaleb(exponent) / 2
    return number - half, number + half


def _check_stated(printed: str) -> str:
    try:
        read_stated(printed)
    except ValueError as error:
        raise spec_error(f"{error}; give one such as 0.063, '0.0630' or '0.96–0.97'") from None
    return printed


Number = float | Annotated[str, Field(max_length=80), AfterValidator(_check_stated)]
"""A published number as printed."""


def list_stated(published: Number | tuple[Number, ...] | None) -> tuple[Stated, ...]:
    """One or several published numbers, or none."""
    if published is None:
        return ()
    return tuple(map(read_stated, published if isinstance(published, tuple) else (published,)))


class Published(Frozen):
    """A number (or one per layer) from the write-up, compared with the measured one."""

    noun: ClassVar[str] = "published"

    metric: str
    arms: Label
    at: At = At()
    value: Number | tuple[Number, ...]
    origin: Origin = Field(default="text", alias="from")
    """Where the number stands."""
    note: Text | None = None
    """A note for the reader about this number."""

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        values = len(self.value) if isinstance(self.value, tuple) else 1
        if values != len(self.at.places()):
            raise spec_error(
                f"{values} values for {len(self.at.places())} places; give one for each layer", where="value"
            )
        return self

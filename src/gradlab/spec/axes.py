"""The values of an axis: a list, or a range that stands for one.

    train.lr: [1e-4, 1e-3, 1e-2]                the values themselves
    train.lr: {log: [1e-4, 1e-1], points: 7}    equal ratios, both ends included
    train.lr: {linear: [0.1, 0.5], points: 5}   equal steps
    model.depth: {range: [2, 50], step: 4}      whole numbers, both ends if the step meets them

Whole numbers at both ends of a log or linear range give whole numbers. Other values are rounded to four digits, so that
a point's name can be read and typed again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema, model_validator

from gradlab.spec.base import Frozen, refusal
from gradlab.spec.refusals import first_problem

DIGITS = 4
MOST_VALUES = 10_000
Points = Annotated[int, Field(ge=2, le=MOST_VALUES, strict=True)]
Ends = tuple[int | float, int | float]


class Range(Frozen):
    """A rule for the values of an axis."""

    noun: ClassVar[str] = "an axis"

    log: Ends | None = None
    linear: Ends | None = None
    range: tuple[Annotated[int, Field(strict=True)], Annotated[int, Field(strict=True)]] | None = None
    points: Points | None = None
    step: Annotated[int, Field(ge=1, strict=True)] = 1

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        given = [name for name in ("log", "linear", "range") if getattr(self, name) is not None]
        if len(given) != 1:
            raise refusal("an axis is a list of values, or one of log, linear and range")
        if given == ["range"]:
            if self.points is not None:
                raise refusal("a range of whole numbers has a step, not points", where="points")
        elif self.points is None:
            raise refusal(f"say how many: {{{given[0]}: [from, to], points: 5}}", where="points")
        if self.log is not None and min(self.log) <= 0:
            raise refusal(f"both ends of a log range have to be above 0, not {list(self.log)}", where="log")
        return self

    def values(self) -> tuple[int | float, ...]:
        """The values that the rule stands for, each once, in order."""
        if self.range is not None:
            first, last = self.range
            way = self.step if last >= first else -self.step
            if abs(last - first) // self.step >= MOST_VALUES:
                raise refusal(f"more than {MOST_VALUES:,} values", where="range")
            return tuple(range_(first, last + (1 if way > 0 else -1), way))
        ends = self.log or self.linear
        assert ends is not None
        assert self.points is not None
        whole = all(isinstance(end, int) for end in ends)
        low, high = (math.log(end) for end in ends) if self.log else map(float, ends)
        places = [low + (high - low) * index / (self.points - 1) for index in range_(self.points)]
        found = [math.exp(place) if self.log else place for place in places]
        found[0], found[-1] = ends
        return tuple(dict.fromkeys(round(value) if whole else float(f"{value:.{DIGITS}g}") for value in found))


range_ = range
"""The builtin: inside the class the name is a field's."""


def _listed(raw: Any) -> Any:
    if not isinstance(raw, Mapping):
        return raw
    try:
        return Range.model_validate(raw).values()
    except ValidationError as error:
        where, message = first_problem(error)
        raise refusal(message, where=where) from None


Axis = Annotated[
    tuple[Any, ...],
    Field(min_length=1, max_length=MOST_VALUES),
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "array", "minItems": 1}, Range.model_json_schema()]}),
]
"""An axis as it is written; a rule becomes its values."""

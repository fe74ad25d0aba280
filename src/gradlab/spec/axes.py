"""The values of an axis: a list, or a rule that generates one.

    train.lr: [1e-4, 1e-3, 1e-2]                the values themselves
    train.lr: {log: [1e-4, 1e-1], points: 7}    equal ratios, both ends included
    train.lr: {linear: [0.1, 0.5], points: 5}   equal steps
    model.depth: {range: [2, 50], step: 4}      integers, both ends included if the step fits

Integer ends of a log or linear range give integers. Other values are rounded to four digits, or to as many as they
need to differ, so that the name of a point is easy to read and type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema, model_validator

from gradlab.spec.base import Frozen, spec_error
from gradlab.spec.messages import first_problem

DIGITS = 4
MAX_VALUES = 10_000
Points = Annotated[int, Field(ge=2, le=MAX_VALUES, strict=True)]
End = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]
Ends = tuple[End, End]


class Range(Frozen):
    """A rule that generates the values of an axis."""

    noun: ClassVar[str] = "an axis"

    log: Ends | None = None
    linear: Ends | None = None
    range: tuple[Annotated[int, Field(strict=True)], Annotated[int, Field(strict=True)]] | None = None
    points: Points | None = None
    step: Annotated[int, Field(ge=1, strict=True)] = 1

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        given = [name for name in ("log", "linear", "range") if getattr(self, name) is not None]
        if len(given) != 1:
            raise spec_error("give a list of values, or one of log, linear and range")
        if given == ["range"]:
            if self.points is not None:
                raise spec_error("a range of integers has a step, not points", where="points")
        elif self.points is None:
            raise spec_error(f"give the number of points: {{{given[0]}: [from, to], points: 5}}", where="points")
        if self.log is not None and min(self.log) <= 0:
            raise spec_error(f"both ends of a log range must be above 0, not {list(self.log)}", where="log")
        return self

    def values(self) -> tuple[int | float, ...]:
        """Return the values of the rule, each once, in order."""
        if self.range is not None:
            first, last = self.range
            way = self.step if last >= first else -self.step
            if abs(last - first) // self.step >= MAX_VALUES:
                raise spec_error(f"more than {MAX_VALUES:,} values", where="range")
            return tuple(range(first, last + (1 if way > 0 else -1), way))
        ends = self.log or self.linear
        assert ends is not None
        assert self.points is not None
        try:
            found = _space_values(*ends, self.points, by_ratio=self.log is not None)
        except OverflowError:
            raise spec_error("the ends are too large", where="log" if self.log else "linear") from None
        if all(isinstance(end, int) for end in ends):
            return tuple(dict.fromkeys(round(value) for value in found))
        return _round_values(found, ends)


def _space_values(low: float, high: float, points: int, by_ratio: bool) -> list[float]:
    """Return evenly spaced values from one end to the other."""
    if by_ratio:
        low, high = math.log(low), math.log(high)
    places = [low + (high - low) * index / (points - 1) for index in range(points)]
    return [math.exp(place) if by_ratio else float(place) for place in places]


def _round_values(values: list[float], ends: Ends) -> tuple[float, ...]:
    """Round the values to the fewest digits at which they still differ; keep the ends as written."""
    first, last = float(ends[0]), float(ends[1])
    for digits in range(DIGITS, 18):
        inner = [float(f"{value:.{digits}g}") for value in values[1:-1]]
        found = (first, *inner, last)
        if len(set(found)) == len(values):
            return found
    return tuple(dict.fromkeys([first, *values[1:-1], last]))


def expand_range(raw: Any) -> Any:
    """The values of a rule; a list as it is."""
    if not isinstance(raw, Mapping):
        return raw
    try:
        return Range.model_validate(raw).values()
    except ValidationError as error:
        where, message = first_problem(error, raw)
        raise spec_error(message, where=where) from None


Axis = Annotated[
    tuple[Any, ...],
    Field(min_length=1, max_length=MAX_VALUES),
    BeforeValidator(expand_range),
    WithJsonSchema({"anyOf": [{"type": "array", "minItems": 1}, Range.model_json_schema()]}),
]
"""An axis as written in a study; a rule becomes its values."""

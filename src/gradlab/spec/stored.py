"""JSON that anybody may have written, in a file or on a page: parsed without surprises, and fitted to a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gradlab.errors import shortened
from gradlab.spec.messages import first_problem

Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""A whole number that a table can hold."""
Count = Annotated[int, Field(ge=0, lt=2**63)]


def read_json(content: bytes | bytearray) -> Any:
    """Parse JSON that can be written again; a `ValueError` says why it cannot.

    Python also reads `NaN`, `Infinity` and half of a surrogate pair, which no file and no answer can hold.
    """
    try:
        value = json.loads(content, parse_constant=_refuse)
        if b"\\ud" in content.lower():
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise ValueError("it holds text that is not Unicode (half of a surrogate pair)") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


class Stored(BaseModel):
    """The shape of a JSON object that is read back. Kinds are exact; fields that it does not name are left alone."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    @classmethod
    def fit(cls, tree: Mapping[str, Any]) -> Self:
        """The object in this shape; a `ValueError` names the first field that does not fit."""
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            where, message = first_problem(error, tree)
            raise ValueError(f"{shortened(where)}: {message}" if where else message) from None

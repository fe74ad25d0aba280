"""Values in short words, for names in figures, tables and answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from gradlab.errors import PartError
from gradlab.parts import Catalog
from gradlab.spec.paths import choice_at, label


def short(path: str, value: Any, catalog: Catalog) -> str:
    """A value in words; of a part, its name and the parameters that differ from their defaults."""
    choice = choice_at(path)
    if choice is None or not isinstance(value, Mapping) or choice.key not in value:
        return label(value)
    usual = choice.own_fields()
    with suppress(PartError, ValidationError):  # a part may have parameters without a default
        usual |= catalog.make(choice.part, value[choice.key], {}).parameters()
    return label({key: item for key, item in value.items() if key not in usual or usual[key] != item})

"""Values in short words, for names in figures, tables and answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from gradlab.errors import PartError
from gradlab.parts import Catalog
from gradlab.spec.paths import label


def short(path: str, value: Any, catalog: Catalog) -> str:
    """A value in words, without the parameters of a part that are what they are anyway."""
    if not isinstance(value, Mapping) or "kind" not in value:
        return label(value)
    usual: dict[str, Any] = {"scale": 1.0, "scale_on": "all", "bias": "zeros"}
    with suppress(PartError, ValidationError, KeyError):  # a part may have parameters without a default
        usual |= catalog.make(path.split(".")[-1], value["kind"], {}).parameters()
    return label({key: item for key, item in value.items() if key == "kind" or usual.get(key) != item})

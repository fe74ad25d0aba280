"""The base of every specification: frozen, without unknown keys, with hints for misspelled ones."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from gradlab.errors import offer, shortened

Scale = float | Literal["1/sqrt(depth)", "1/depth"]
"""A number, or one that follows from the depth."""


def scale_value(scale: Scale, depth: int) -> float:
    """Return the value of a scale in a network of this depth."""
    if scale == "1/sqrt(depth)":
        return float(depth**-0.5)
    return 1 / depth if isinstance(scale, str) else float(scale)


class Frozen(BaseModel):
    """A specification: immutable, without unknown keys, without NaN or infinity."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True, serialize_by_alias=True
    )
    noun: ClassVar[str] = "this section"
    later: ClassVar[frozenset[str]] = frozenset()
    """Fields added after ids were fixed: at their default they do not enter the ids of trials."""

    @classmethod
    def default(cls, field: str) -> Any:
        """The default of a field, as a validated value."""
        found = cls.model_fields[field]
        kind = found.annotation
        is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
        return kind.model_validate(found.default) if is_model else found.default  # type: ignore[union-attr]

    @property
    def derived(self) -> frozenset[str]:
        """Fields that others determine; they are not written down."""
        return frozenset()

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping):
            return raw
        accepted = [field.alias or name for name, field in cls.model_fields.items()]
        for key in raw:
            if key not in accepted and cls.model_config.get("extra") != "allow":
                raise spec_error(f"unknown key {shortened(key)} in {cls.noun}{offer(key, accepted)}", where=str(key))
        return cls._add_default_names(raw)

    @classmethod
    def _add_default_names(cls, raw: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Allow `init: {scale: 2}` to set a field of the default init without repeating its name."""
        filled = dict(raw)
        for name, field in cls.model_fields.items():
            key = getattr(field.annotation, "key", None)
            if key and isinstance(field.default, str) and isinstance(raw.get(name), Mapping) and key not in raw[name]:
                filled[name] = {key: field.default, **raw[name]}
        return filled


def spec_error(message: str, *, where: str = "", value: object = None) -> PydanticCustomError:
    """Return a validation error with a complete message; `where` is the path below the field."""
    return PydanticCustomError("gradlab", "{message}", {"message": message, "where": where, "value": value})


def refuse(wrong: object, message: str, where: str = "") -> None:
    """Raise a validation error if something is wrong."""
    if wrong:
        raise spec_error(message, where=where)


# Canonical JSON (equal values give equal text), and the hash that identifies a trial.


def plain_json(value: Any) -> Any:
    """Convert non-finite numbers to the strings "nan", "inf" and "-inf", which JSON lacks; None stays null."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    return value


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys, no spaces and shortest exact floats: equal values give equal text."""
    return json.dumps(plain_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def content_id(value: Any) -> str:
    """Return the first 16 hex digits of the SHA-256 of the canonical JSON."""
    return sha256(canonical_json(value).encode()).hexdigest()[:16]

"""Canonical JSON (equal values give equal text), and the hash that identifies a trial."""

from __future__ import annotations

import json
import math
from hashlib import sha256
from typing import Any


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

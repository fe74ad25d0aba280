"""One text for one meaning: canonical JSON, and the hash that names a trial."""

from __future__ import annotations

import json
import math
from hashlib import sha256
from typing import Any


def plain_json(value: Any) -> Any:
    """JSON has no NaN: non-finite numbers become the strings "nan", "inf", "-inf"; missing stays null."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    return value


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, shortest exact floats: equal meaning, equal text."""
    return json.dumps(plain_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def content_id(value: Any) -> str:
    """The first 16 hex digits of the SHA-256 of the canonical JSON."""
    return sha256(canonical_json(value).encode()).hexdigest()[:16]

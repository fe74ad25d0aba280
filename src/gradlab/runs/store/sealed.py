"""JSON files of a run's folder that can be verified: each holds the checksum of its content.

Runs of format 3 and before have files without one; they are read as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from gradlab.errors import StoreError
from gradlab.runs.store.atomic import read_regular
from gradlab.spec.canonical import canonical_json, plain_json

KEY = "sha256"
UNSEALED = 3
"""The last format of a run whose files have no checksums."""


class DamagedFile(StoreError):
    """A file that does not hold what was written."""

    @staticmethod
    def at(path: Path, reason: str) -> DamagedFile:
        """The error that names the file."""
        return DamagedFile(f"{path} is damaged: {reason}")


def checksum(value: Mapping[str, Any]) -> str:
    """Of everything in an object but the checksum itself."""
    return sha256(canonical_json({k: v for k, v in value.items() if k != KEY}).encode()).hexdigest()


def sealed(value: Mapping[str, Any], indent: int | None = 1) -> bytes:
    """An object as the bytes of a file, with its checksum."""
    plain = plain_json(dict(value))
    separators = None if indent else (",", ":")
    text = json.dumps({**plain, KEY: checksum(plain)}, indent=indent, separators=separators, ensure_ascii=False)
    return f"{text}\n".encode()


def read_sealed(path: Path, *, required: bool = False) -> dict[str, Any] | None:
    """The object in a file, without its checksum; None if the file is not there.

    `required`: whether a file without a checksum is damaged (it is not in old runs).
    """
    try:
        value = json.loads(read_regular(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise DamagedFile.at(path, "it is not JSON") from None
    if not isinstance(value, dict):
        raise DamagedFile.at(path, "it is not a JSON object")
    if KEY not in value and not required:
        return value
    try:
        fits = value.get(KEY) == checksum(value)
    except (RecursionError, ValueError):
        fits = False
    if not fits:
        raise DamagedFile.at(path, "its checksum does not fit")
    del value[KEY]
    return value

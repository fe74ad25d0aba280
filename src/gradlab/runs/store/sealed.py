"""JSON files with a checksum of their content, so that damage is detected.

Runs of format 3 and earlier have files without one; they are read unchecked.
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
    """A file that does not match its checksum, or is not valid."""

    @staticmethod
    def at(path: Path, reason: str) -> DamagedFile:
        """Return the error with the file's name."""
        return DamagedFile(f"{path} is damaged: {reason}")


def checksum(value: Mapping[str, Any]) -> str:
    """Hash everything in an object except the checksum itself."""
    return sha256(canonical_json({k: v for k, v in value.items() if k != KEY}).encode()).hexdigest()


def sealed(value: Mapping[str, Any], indent: int | None = 1) -> bytes:
    """Return an object as the bytes of a file, with its checksum."""
    plain = plain_json(dict(value))
    separators = None if indent else (",", ":")
    text = json.dumps({**plain, KEY: checksum(plain)}, indent=indent, separators=separators, ensure_ascii=False)
    return f"{text}\n".encode()


def read_sealed(path: Path, *, required: bool = False) -> dict[str, Any] | None:
    """Return the object in a file, without its checksum; None if there is no such file.

    `required`: whether a file without a checksum counts as damaged (not so in old runs).
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
        raise DamagedFile.at(path, "its checksum does not match")
    del value[KEY]
    return value

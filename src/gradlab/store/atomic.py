"""A file is there whole, or not at all: write beside it, fsync, rename, fsync the folder."""

from __future__ import annotations

import os
from pathlib import Path

from gradlab.errors import StoreError


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by `content`; after a crash it holds the old content or the new, never a part."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _sync_folder(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True) if beside.parent.exists() else None
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows has no handle on a folder to sync
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

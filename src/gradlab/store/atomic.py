"""A file or folder is there whole, or not at all: write beside it, fsync, rename, fsync the folder above."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from gradlab.errors import StoreError


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by `content`; after a crash it holds the old content or the new, never a part."""
    if not path.name:
        raise StoreError(f"cannot write {path}: it is a folder")
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_synced(beside, content)
        os.replace(beside, path)
        _sync_folder(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True) if beside.parent.exists() else None
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None


def write_folder(path: Path, files: Mapping[str, bytes], beside: Path) -> None:
    """Make the folder `path` with these files in one step: it is prepared at `beside`, then renamed."""
    try:
        beside.mkdir(parents=True)
        for name, content in files.items():
            _write_synced(beside / name, content)
        _sync_folder(beside)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.rename(beside, path)
        _sync_folder(path.parent)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None


def _write_synced(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows has no handle on a folder to sync
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Atomic writes of files and folders: write a temporary sibling, fsync, rename, fsync the parent folder."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import IO, Any, TypeVar

from gradlab.errors import StoreError
from gradlab.spec.base import canonical_json, plain_json
from gradlab.spec.stored import read_json


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by `content`; after a crash it holds the old content or the new, never a part of it."""
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


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` at the end of the block; an error leaves `path` as it was."""
    if not path.name:
        raise StoreError(f"cannot write {path}: it is a folder")
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def write_folder(path: Path, files: Mapping[str, bytes], beside: Path) -> None:
    """Create the folder `path` with these files in one step: prepare it at `beside`, then rename it."""
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


def read_regular(path: Path) -> bytes:
    """Read a regular file; raise an `OSError` for a pipe or a device, which could block forever."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is a folder, a pipe or a device, not a file")
        return file.read()


def open_own(path: Path, flags: int) -> int:
    """Open a file for writing without following links: a run folder may come from anybody."""
    handle = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return handle


def free_name(path: Path) -> Path:
    """`NAME~1`, `NAME~2`, …: the first that is not there."""
    return next(p for n in count(1) if not (p := path.with_name(f"{path.name}~{n}")).exists())


def move(path: Path, place: Path) -> None:
    """Rename a file or folder; a `StoreError` if that is not possible."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
    except OSError as error:
        raise StoreError(f"{path} cannot be moved aside to {place}: {error.strerror or error}") from None


def _write_synced(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)  # left by a process that died, or planted
    with open(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot sync a folder
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# JSON files with a checksum of their content, so that damage is detected.

T = TypeVar("T")
KEY = "sha256"


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


def read_sealed(path: Path) -> dict[str, Any] | None:
    """Return the object in a file, without its checksum; None if there is no such file."""
    try:
        value = read_json(read_regular(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        raise DamagedFile.at(path, "it is not JSON") from None
    if not isinstance(value, dict):
        raise DamagedFile.at(path, "it is not a JSON object")
    try:
        fits = value.get(KEY) == checksum(value)
    except (RecursionError, ValueError):
        fits = False
    if not fits:
        raise DamagedFile.at(path, "its checksum does not match")
    del value[KEY]
    return value


def read_fitted(path: Path, fit: Callable[[dict[str, Any]], T]) -> T | None:
    """Return what `fit` makes of the object in a file; where it raises a `ValueError`, the file is damaged."""
    found = read_sealed(path)
    try:
        return None if found is None else fit(found)
    except ValueError as error:
        raise DamagedFile.at(path, str(error)) from None

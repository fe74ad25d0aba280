"""Files of a run's folder: written whole or not at all, read with their checksum, guarded by a lock.

A file is written as a temporary sibling, synced and renamed, and its folder is synced: after a crash it holds the old
content or the new, never a part of either.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import Path
from time import sleep
from typing import IO, Any, TypeVar

from gradlab.errors import StoreError
from gradlab.spec.base import canonical_json, plain_json
from gradlab.spec.stored import read_json

T = TypeVar("T")
KEY = "sha256"
"""The field of a JSON file that holds the checksum of the others."""
FOREIGN = (errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP)
"""Errors of a file where a folder should be, of a folder where a file should be, and of a link to itself."""


class DamagedFile(StoreError):
    """A file that does not match its checksum, or is not valid."""

    @staticmethod
    def at(path: Path, reason: str) -> DamagedFile:
        """Return the error with the file's name."""
        return DamagedFile(f"{path} is damaged: {reason}")


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by `content`."""
    with writing(path) as file:
        file.write(content)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` at the end of the block; an error leaves `path` as it was."""
    if not path.name:
        raise StoreError(f"cannot write {path}: it is a folder")
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _creating(beside) as file:
            yield file
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
            with _creating(beside / name) as file:
                file.write(content)
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


def read_stored(path: Path) -> bytes | None:
    """Read a file of a run; None if it is missing, `DamagedFile` if it is not a file, `StoreError` if it is unreadable.

    A file that cannot be read may be whole, so it is not damaged.
    """
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in FOREIGN:
            raise DamagedFile.at(path, "it is not a regular file") from None
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from None


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


@contextmanager
def _creating(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file for writing that is synced at the end of the block."""
    path.unlink(missing_ok=True)  # left by a process that died, or planted
    with open(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)), "wb") as file:
        yield file
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
    content = read_stored(path)
    if content is None:
        return None
    try:
        value = read_json(content)
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
    value = read_sealed(path)
    try:
        return None if value is None else fit(value)
    except ValueError as error:
        raise DamagedFile.at(path, str(error)) from None


def read_json_object(path: Path) -> Mapping[str, Any]:
    """Read a JSON object that may be rewritten at the same time; empty if it is missing or incomplete."""
    try:
        words = read_json(read_regular(path))
    except (OSError, ValueError):
        return {}
    return words if isinstance(words, dict) else {}


# A lock that a living process holds: when the process dies in any way, the lock is released.

LOCK = "lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)
"""Errors of a file system without locks; any other error means that another process holds the lock."""
_FAR = 1 << 30
"""Windows locks bytes, and locked bytes cannot be read: lock one far beyond the text."""


class Lock:
    """The right to write to a run folder. The file names the holder; the operating system knows whether it is held."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    @staticmethod
    def take(folder: Path) -> Lock:
        """Take the lock of a folder, or raise and name the process that holds it."""
        path = folder / LOCK
        while True:
            try:
                file = open(open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+b")  # noqa: SIM115 - held open
            except OSError as error:
                raise StoreError(f"cannot write to the run folder {folder}: {error.strerror or error}") from None
            try:
                if not _lock_soon(file):
                    raise StoreError(f"{folder} is in use: {describe_holder(folder)}; wait for it or use another --out")
                if _is_at(file, path):
                    words = {"pid": os.getpid(), "host": socket.gethostname()}
                    words["since"] = datetime.now(UTC).isoformat("T", "seconds")
                    file.truncate(0)
                    file.write(json.dumps(words).encode())
                    file.flush()
                    return Lock(file)
            except OSError as error:
                file.close()
                raise StoreError(f"cannot write {path}: {error.strerror or error}") from None
            except BaseException:
                file.close()
                raise
            file.close()  # the folder was moved between opening and locking

    def check(self, folder: Path) -> None:
        """Raise a `StoreError` if the folder was moved or removed since the lock was taken."""
        if not _is_at(self._file, folder / LOCK):
            raise StoreError(
                f"{folder} was moved or removed during the run; committed results are in the folder's new location: "
                "run the same command there (--out) to resume"
            )

    def release(self) -> None:
        """Release the lock; the file stays, empty."""
        if not self._file.closed:
            self._file.truncate(0)
            self._file.close()


def is_held(folder: Path) -> bool:
    """Whether a living process holds the folder's lock."""
    try:
        with open(os.open(folder / LOCK, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            return not try_lock(file, shared=True)
    except (OSError, StoreError):  # without locks, nobody holds one
        return False


def holder(folder: Path) -> Mapping[str, Any]:
    """Return what the holder of the folder's lock wrote of itself: pid, host, since; empty if that is not there."""
    return read_json_object(folder / LOCK)


def describe_holder(folder: Path) -> str:
    """Describe the process that holds the lock of a folder."""
    words = holder(folder)
    if not words:
        return "another process has it open"
    return f"process {words.get('pid')} on {words.get('host')} has had it open since {words.get('since')}"


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        return False


def _lock_soon(file: IO[bytes]) -> bool:
    """Try several times: a process that only checks the lock holds it for microseconds."""
    for _ in range(5):
        if try_lock(file):
            return True
        sleep(0.02)
    return False


def try_lock(file: IO[bytes], shared: bool = False) -> bool:
    """Try to lock; closing the file, or the end of the process, unlocks."""
    if os.name == "nt":
        import msvcrt

        try:
            file.seek(_FAR)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise StoreError(
                f"{file.name}: this file system does not support locks ({error.strerror}), so two processes could "
                "write to one run; choose a folder on a local disk with --out"
            ) from None
        return False
    return True

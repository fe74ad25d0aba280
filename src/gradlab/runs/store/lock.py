"""A lock that a living process holds: when the process dies in any way, the lock is released."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import IO, Any

from gradlab.errors import StoreError
from gradlab.runs.store.files import open_own, read_regular
from gradlab.spec.stored import read_json

NAME = "lock"
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
        path = folder / NAME
        while True:
            try:
                handle = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
                file = open(handle, "a+b")  # noqa: SIM115 - stays open as long as the lock is held
            except OSError as error:
                raise StoreError(f"cannot write to the run folder {folder}: {error.strerror or error}") from None
            try:
                taken = _lock_soon(file)
            except StoreError:
                file.close()
                raise
            if not taken:
                file.close()
                raise StoreError(
                    f"{folder} is in use: {describe_holder(holder(folder))}; wait for it or use another --out"
                )
            try:
                same = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
            except OSError:
                same = False
            if same:
                break
            file.close()  # the folder was moved between the two calls
        words = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat("T", "seconds")}
        try:
            file.truncate(0)
            file.write(json.dumps(words).encode())
            file.flush()
        except OSError as error:
            file.close()
            raise StoreError(f"cannot write {path}: {error.strerror or error}") from None
        return Lock(file)

    def check(self, folder: Path) -> None:
        """Raise a `StoreError` if the folder was moved or removed since the lock was taken."""
        try:
            same = os.path.samestat(os.fstat(self._file.fileno()), os.stat(folder / NAME))
        except OSError:
            same = False
        if not same:
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
        with open(os.open(folder / NAME, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            return not try_lock(file, shared=True)
    except (OSError, StoreError):  # without locks, nobody holds one
        return False


def holder(folder: Path) -> Mapping[str, Any]:
    """Return the lock file's data about its holder; empty if there are none."""
    return read_json_object(folder / NAME)


def read_json_object(path: Path) -> Mapping[str, Any]:
    """Read a JSON object that may be rewritten at the same time; empty if it is missing or incomplete."""
    try:
        words = read_json(read_regular(path))
    except (OSError, ValueError):
        return {}
    return words if isinstance(words, dict) else {}


def describe_holder(words: Mapping[str, Any]) -> str:
    """Describe the holder of a lock."""
    if not words:
        return "another process has it open"
    return f"process {words.get('pid')} on {words.get('host')} has had it open since {words.get('since')}"


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

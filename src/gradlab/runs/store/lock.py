"""A lock that is held by a living process: when the process dies, however it dies, the lock is free."""

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
from gradlab.runs.store.atomic import open_own, read_regular

NAME = "lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)
"""What a file system says that cannot lock; anything else means that somebody else holds the lock."""
_FAR = 1 << 30
"""Windows locks bytes, and locked bytes cannot be read: lock one far behind the text."""


class Lock:
    """The right to write to a run's folder. The file says who holds it; that it is held, the system says."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    @staticmethod
    def take(folder: Path) -> Lock:
        """Take the lock of a folder, or refuse and name the process that has it."""
        path = folder / NAME
        while True:
            try:
                handle = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
                file = open(handle, "a+b")  # noqa: SIM115 - it stays open as long as the lock is held
            except OSError as error:
                raise StoreError(f"cannot write to the run's folder {folder}: {error.strerror or error}") from None
            try:
                taken = _lock_soon(file)
            except StoreError:
                file.close()
                raise
            if not taken:
                file.close()
                raise StoreError(f"{folder} is in use: {described(holder(folder))}; wait for it or use another --out")
            try:
                same = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
            except OSError:
                same = False
            if same:
                break
            file.close()  # somebody moved the folder away between the two calls
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
        """A `StoreError` if the folder is no longer where the lock was taken: it was moved or removed meanwhile."""
        try:
            same = os.path.samestat(os.fstat(self._file.fileno()), os.stat(folder / NAME))
        except OSError:
            same = False
        if not same:
            raise StoreError(
                f"{folder} was moved or removed while it was written to; what was committed before is where the folder "
                "is now: run the same command there (--out) to go on"
            )

    def release(self) -> None:
        """Give it back; the file stays, empty."""
        if not self._file.closed:
            self._file.truncate(0)
            self._file.close()


def is_held(folder: Path) -> bool:
    """Whether a living process holds the folder's lock."""
    try:
        with open(os.open(folder / NAME, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            return not try_lock(file, shared=True)
    except (OSError, StoreError):  # where there are no locks, nobody holds one
        return False


def holder(folder: Path) -> Mapping[str, Any]:
    """What the lock's file says about its holder; empty if nothing."""
    return words_in(folder / NAME)


def words_in(path: Path) -> Mapping[str, Any]:
    """A JSON object that somebody may be rewriting; empty if it is not there or not whole."""
    try:
        words = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return words if isinstance(words, dict) else {}


def described(words: Mapping[str, Any]) -> str:
    """A holder in words."""
    if not words:
        return "another process has it open"
    return f"process {words.get('pid')} on {words.get('host')} has it open since {words.get('since')}"


def _lock_soon(file: IO[bytes]) -> bool:
    """Try for a moment: somebody who only asks whether the lock is held has it for microseconds."""
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
                f"{file.name}: this file system has no locks ({error.strerror}), without which two processes could "
                "write to one run; choose a folder on a local disk with --out"
            ) from None
        return False
    return True

"""Numba's cache with a checksum beside every file: what is torn or altered is compiled again, never unpickled.

    backward-60.py311.1.nbc          numba's file
    backward-60.py311.1.nbc.sha256   of what was written

A cache that cannot be read or written (a full disk, a torn file) is said so once; kernels are then compiled in memory.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from time import sleep
from typing import Any

from gradlab.notices import say_once

TRIES, PAUSE = 8, 0.03
"""Another process may be between a file and its checksum."""


def checked(cache: Any) -> Any:
    """The cache of one function, with checks around what numba does with its files."""
    cache._cache_file = _CheckedFiles(cache._cache_file)
    return _Forgiving(cache)


class _Damaged(Exception):
    """A file is not what was written."""


class _Forgiving:
    """The cache as numba's dispatchers use it; whatever goes wrong in it costs a compilation and nothing else."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled function, or None: it has to be compiled."""
        try:
            return self._cache.load_overload(signature, context)
        except Exception as error:
            say_once(f"kernels in {self._cache.cache_path} are damaged and are compiled again ({_told(error)})")
            try:
                self._cache._cache_file.discard()
            except OSError:
                self._cache.disable()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        """Keep a compiled function, if that can be done."""
        try:
            self._cache.save_overload(signature, data)
        except Exception as error:
            say_once(f"compiled kernels cannot be kept in {self._cache.cache_path} ({_told(error)})")


class _CheckedFiles:
    """Numba's index and data files of one function. Reads go through the checksum, writes leave one."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def load(self, key: Any) -> Any:
        """An entry; None where there is none."""
        index = Path(self._files._index_path)
        if not index.exists():
            return None
        _check(index)
        name = self._files._load_index().get(key)
        if name is None:
            return None
        data = Path(self._files._data_path(name))
        if not data.exists():
            return None
        _check(data)
        return self._files._load_data(name)

    def save(self, key: Any, data: Any) -> None:
        """Add an entry, and the checksums of what was written."""
        index = Path(self._files._index_path)
        try:
            if index.exists():
                _check(index)  # numba is going to unpickle it
        except _Damaged:
            self.discard()
        self._files.save(key, data)
        _seal(index)
        _seal(Path(self._files._data_path(self._files._load_index()[key])))

    def discard(self) -> None:
        """Remove the files of this function."""
        index = Path(self._files._index_path)
        stem = index.name.removesuffix(".nbi")
        for path in index.parent.glob(f"{stem}.*"):
            path.unlink(missing_ok=True)

    def flush(self) -> None:
        """Forget all entries."""
        self.discard()


def _check(path: Path) -> None:
    for _ in range(TRIES):
        if _fits(path):
            return
        sleep(PAUSE)
    raise _Damaged(f"{path.name} is not what was written")


def _fits(path: Path) -> bool:
    try:
        return sha256(path.read_bytes()).hexdigest() == _seal_of(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return False


def _seal(path: Path) -> None:
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    beside.write_text(sha256(path.read_bytes()).hexdigest(), encoding="ascii")
    os.replace(beside, _seal_of(path))


def _seal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, _Damaged) else f"{type(error).__name__}: {error}"

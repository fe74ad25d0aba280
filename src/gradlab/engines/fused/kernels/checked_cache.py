"""Numba's cache with a checksum beside every file: damaged or altered files are recompiled, never unpickled.

    backward-60.py311.1.nbc          numba's file
    backward-60.py311.1.nbc.sha256   its checksum

A cache that cannot be read or written (a full disk, a damaged file) causes one notice; kernels are then compiled in
memory.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from time import sleep
from typing import Any

from gradlab.notices import say_once

TRIES, PAUSE = 8, 0.03
"""Another process may be between writing a file and its checksum."""


def wrap_cache(cache: Any) -> Any:
    """Wrap the cache of one function with checks of its files."""
    cache._cache_file = _CheckedFiles(cache._cache_file)
    return _SafeCache(cache)


class _Damaged(Exception):
    """A file does not match its checksum."""


class _SafeCache:
    """The cache interface of numba's dispatchers; a failure costs one compilation and nothing else."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the compiled function, or None if it must be compiled."""
        try:
            return self._cache.load_overload(signature, context)
        except Exception as error:
            say_once(f"kernels in {self._cache.cache_path} are damaged and will be recompiled ({_describe(error)})")
            try:
                self._cache._cache_file.discard()
            except OSError:
                self._cache.disable()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        """Store a compiled function, if possible."""
        try:
            self._cache.save_overload(signature, data)
        except Exception as error:
            say_once(f"compiled kernels cannot be stored in {self._cache.cache_path} ({_describe(error)})")


class _CheckedFiles:
    """Numba's index and data files of one function. Reads verify the checksum, writes create one."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def load(self, key: Any) -> Any:
        """Return an entry; None if there is none."""
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
        """Add an entry, and write the checksums."""
        index = Path(self._files._index_path)
        try:
            if index.exists():
                _check(index)  # numba will unpickle it
        except _Damaged:
            self.discard()
        self._files.save(key, data)
        _write_checksum(index)
        _write_checksum(Path(self._files._data_path(self._files._load_index()[key])))

    def discard(self) -> None:
        """Remove the files of this function."""
        index = Path(self._files._index_path)
        stem = index.name.removesuffix(".nbi")
        for path in index.parent.glob(f"{stem}.*"):
            path.unlink(missing_ok=True)

    def flush(self) -> None:
        """Remove all entries."""
        self.discard()


def _check(path: Path) -> None:
    for _ in range(TRIES):
        if _matches_checksum(path):
            return
        sleep(PAUSE)
    raise _Damaged(f"{path.name} does not match its checksum")


def _matches_checksum(path: Path) -> bool:
    try:
        return sha256(path.read_bytes()).hexdigest() == _checksum_path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return False


def _write_checksum(path: Path) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(sha256(path.read_bytes()).hexdigest(), encoding="ascii")
    os.replace(temporary, _checksum_path(path))


def _checksum_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, _Damaged) else f"{type(error).__name__}: {error}"

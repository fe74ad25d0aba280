"""Compile kernels, and keep them on disk: no interpreter, no GIL, NaN-safe."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from time import sleep
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core import config as numba_config
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from gradlab.cache import cache_folder
from gradlab.notices import say_once

# Numba's cache with a checksum beside every file: damaged or altered files are recompiled, never unpickled.
#
#     backward-60.py311.1.nbc          numba's file
#     backward-60.py311.1.nbc.sha256   its checksum
#
# A cache that cannot be read or written (a full disk, a damaged file) causes one notice; kernels are then compiled in
# memory.

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


# Compile kernels: no interpreter, no GIL, NaN-safe, and cached on disk under the hash of their sources.
#
# Numba notices an edit of the file that defines a function, not of the files it calls. So the cache folder is named by
# the hash of all kernel sources (and of numba's version). It is outside the package, which may be read-only. A damaged,
# full or altered cache costs a compilation, never a trial.


@lru_cache(maxsize=1)
def kernels_folder() -> Path | None:
    """Return the folder of compiled kernels, named by the hash of all their sources; None if there is no cache."""
    digest = sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode() + source.read_bytes())
    folder = cache_folder(f"kernels-{digest.hexdigest()[:16]}")
    if folder is not None:
        return folder
    try:
        return Path(tempfile.mkdtemp(prefix="gradlab-"))
    except OSError:
        return None


def is_cold(entry: str) -> bool:
    """Whether the kernel of this name, and so what it calls, is not in the cache yet."""
    folder = kernels_folder()
    return folder is None or not any(folder.rglob(f"*.{entry}-*.nbc"))


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function on first use and store it on disk."""
    return _compile_cached(numba.njit(nogil=True, boundscheck=False, error_model="numpy"), function)


def entry_point(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile a function of bare pointers and numbers now and store it on disk; it has an `address`."""
    from numba.core.ccallback import CFunc
    from numba.core.sigutils import normalize_signature

    # like `numba.cfunc`, whose own cache has no checksums
    made = CFunc(function, normalize_signature(signature), {}, {"error_model": "numpy"})
    _enable_cache(made)
    made.compile()
    return made


settings: Any = numba_config


def _compile_cached(compiler: Callable[..., Any], function: Callable[..., Any]) -> Any:
    made = compiler(function)
    _enable_cache(made)
    return made


def _enable_cache(made: Any) -> None:
    """Enable numba's cache in our folder, with checksums."""
    folder = kernels_folder()
    if folder is None:
        return
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(folder)  # read while the cache is created, restored right after
    try:
        made.enable_caching()
        made._cache = wrap_cache(made._cache)
    except Exception as error:  # for example, the disk is full: kernels are compiled in memory
        say_once(f"compiled kernels cannot be stored in {folder} ({type(error).__name__}: {error})")
    finally:
        settings.CACHE_DIR = before


@intrinsic
def window(typing, array, offset):
    """Return array[offset:] as a bare pointer with the same shape: a slice without its bookkeeping."""

    def generate(context, builder, signature, arguments):
        kind = signature.args[0]
        whole = context.make_array(kind)(context, builder, arguments[0])
        part = context.make_array(kind)(context, builder)
        populate_array(
            part, builder.gep(whole.data, [arguments[1]]), whole.shape, whole.strides, whole.itemsize, meminfo=None
        )
        return part._getvalue()

    return array(array, types.int64), generate


@intrinsic
def call(typing, at, arguments):
    """Call the entry point at this address: arrays of the tuple as bare pointers, its whole numbers as int64."""

    def generate(context, builder, signature, values):
        given = []
        for kind, value in zip(arguments.types, cgutils.unpack_tuple(builder, values[1]), strict=True):
            if isinstance(kind, types.Array):
                given.append(context.make_array(kind)(context, builder, value).data)
            else:
                given.append(context.cast(builder, value, kind, types.int64))
        function = ir.FunctionType(ir.VoidType(), [value.type for value in given])
        builder.call(builder.inttoptr(values[0], function.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(types.int64, arguments), generate

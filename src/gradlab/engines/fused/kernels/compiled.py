"""Compile kernels: no interpreter, no GIL, NaN-safe, and cached on disk under the hash of their sources.

Numba notices an edit of the file that defines a function, not of the files it calls. So the cache folder is named by
the hash of all kernel sources (and of numba's version). It is outside the package, which may be read-only. A damaged,
full or altered cache costs a compilation, never a trial.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core import config as numba_config
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from gradlab.cache import cache_folder
from gradlab.engines.fused.kernels.checked_cache import wrap_cache
from gradlab.notices import say_once


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

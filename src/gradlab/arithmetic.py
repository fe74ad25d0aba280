"""What the bits of a result depend on besides its code: matrix products and tiny numbers in this process."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from gradlab.errors import EnvironmentFault


def one_blas_thread() -> threadpool_limits:
    """Return a context in which BLAS uses one thread: the number of threads changes the bits of float32 products."""
    np.ones((2, 2)) @ np.ones((2, 2))  # BLAS must be loaded before it can be limited
    return threadpool_limits(1)


def require_denormals() -> None:
    """Raise if this thread flushes denormal numbers to zero.

    The vanishing values of a plain deep network are denormal float32 numbers. Flushing them changes results, and some
    libraries enable it for the thread that loads them.
    """
    if np.float32(1e-38) * np.float32(0.01) == 0:
        raise EnvironmentFault(
            "this thread flushes denormal numbers to zero, so vanishing gradients would be wrong; something "
            "loaded into this process enabled it (torch.set_flush_denormal, or a library built with "
            "-ffast-math): disable it, or run gradlab in a separate process"
        )

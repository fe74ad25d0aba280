"""Torch settings for trials: set while a trial trains, restored afterwards."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

_lock = Lock()
_training = 0
_before: dict[str, Any] = {}


class ReproducibleSession(AbstractContextManager[None]):
    """One thread (the number changes bits, and trials run in parallel), deterministic algorithms, no TF32.

    The number of threads is a setting of the calling thread, the rest are settings of the process.
    """

    def __enter__(self) -> None:
        global _training
        import torch

        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        with _lock:
            _training += 1
            if _training == 1:
                _set()

    def __exit__(self, *error: object) -> None:
        global _training
        import torch

        torch.set_num_threads(self._threads)
        with _lock:
            _training -= 1
            if _training == 0:
                _restore()


def _set() -> None:
    import torch

    _before.update(
        deterministic=torch.are_deterministic_algorithms_enabled(),
        warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
        tf32=torch.backends.cuda.matmul.allow_tf32,
        benchmark=torch.backends.cudnn.benchmark,
    )
    os.environ.setdefault(
        "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
    )  # read when cuBLAS is first used; no effect without CUDA
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = False


def _restore() -> None:
    import torch

    torch.use_deterministic_algorithms(_before["deterministic"], warn_only=_before["warn_only"])
    torch.backends.cuda.matmul.allow_tf32 = _before["tf32"]
    torch.backends.cudnn.benchmark = _before["benchmark"]

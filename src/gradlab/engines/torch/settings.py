"""Torch's settings as trials need them: set while a trial trains, given back afterwards."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

_lock = Lock()
_training = 0
_before: dict[str, Any] = {}


class Repeatable(AbstractContextManager[None]):
    """One thread (their number changes bits, and trials run side by side), deterministic algorithms, no TF32.

    The number of threads belongs to the thread that asks, the rest to the process.
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
                _give_back()


def _set() -> None:
    import torch

    _before.update(
        deterministic=torch.are_deterministic_algorithms_enabled(),
        warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
        tf32=torch.backends.cuda.matmul.allow_tf32,
        benchmark=torch.backends.cudnn.benchmark,
    )
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used; without CUDA, nothing
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = False


def _give_back() -> None:
    import torch

    torch.use_deterministic_algorithms(_before["deterministic"], warn_only=_before["warn_only"])
    torch.backends.cuda.matmul.allow_tf32 = _before["tf32"]
    torch.backends.cudnn.benchmark = _before["benchmark"]

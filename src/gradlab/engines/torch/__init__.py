"""The torch engine: the same trial by autograd, on the CPU or an accelerator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import Lock
from typing import ClassVar, Literal

from gradlab.engines.base import Engine, Trainer
from gradlab.engines.torch.require import MISSING, has_torch, require_torch
from gradlab.parts import Catalog
from gradlab.spec.config import Config
from gradlab.trials.setup import Setup


class Torch(Engine):
    """PyTorch autograd and torch.optim, float32 and float64, on the CPU, CUDA or MPS; Gradlab's batches and draws."""

    name = "torch"
    numerics: ClassVar[int] = 2
    device: Literal["cpu", "cuda", "mps"] = "cpu"

    def trainer(self, setup: Setup) -> Trainer:
        """Return a trainer with autograd's backward pass and torch's update; data stay on the device."""
        require_torch()
        from gradlab.engines.torch.trainer import TorchTrainer

        return TorchTrainer(setup, self.device)

    def session(self) -> AbstractContextManager[None]:
        """Use one thread and deterministic algorithms."""
        return _reproducible()

    def numerics_of(self, config: Config, catalog: Catalog) -> str:
        """The bits depend on the device and on torch's version."""
        version = require_torch().__version__ if has_torch() else "none"
        return f"{self.name}-{self.numerics}-{self.device}-{version}"

    def refusal(self, config: Config, catalog: Catalog) -> str | None:
        """Refuse if torch or the device is missing, or if the device has no float64."""
        if not has_torch():
            return MISSING
        torch = require_torch()
        if self.device == "cuda" and not torch.cuda.is_available():
            return "there is no CUDA device on this machine"
        if self.device == "mps" and not torch.backends.mps.is_available():
            return "there is no MPS device on this machine"
        if self.device == "mps" and config.train.precision == "float64":
            return "MPS has no float64"
        return None


_lock, _sessions, _settings = Lock(), 0, ExitStack()
"""Sessions that are open, and the settings of the process before the first of them."""


@contextmanager
def _reproducible() -> Iterator[None]:
    """One thread (the number changes bits, and trials run in parallel), deterministic algorithms, no TF32.

    The number of threads is a setting of the calling thread. The rest are settings of the process: the first session
    makes them, the last one puts them back.
    """
    global _sessions
    torch = require_torch()
    matmul, cudnn, threads = torch.backends.cuda.matmul, torch.backends.cudnn, torch.get_num_threads()
    torch.set_num_threads(1)
    with _lock:
        _sessions += 1
        if _sessions == 1:
            warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
            enabled = torch.are_deterministic_algorithms_enabled()
            _settings.callback(torch.use_deterministic_algorithms, enabled, warn_only=warn_only)
            _settings.callback(setattr, matmul, "allow_tf32", matmul.allow_tf32)
            _settings.callback(setattr, cudnn, "benchmark", cudnn.benchmark)
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
            torch.use_deterministic_algorithms(True, warn_only=True)
            matmul.allow_tf32 = cudnn.benchmark = False
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        with _lock:
            _sessions -= 1
            if not _sessions:
                _settings.close()

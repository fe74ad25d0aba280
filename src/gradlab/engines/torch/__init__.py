"""The torch engine: the same trial by autograd, on the CPU or an accelerator."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import ClassVar, Literal

from gradlab.engines.base import Engine, Trainer
from gradlab.engines.torch.require import MISSING, has_torch, require_torch
from gradlab.engines.torch.settings import ReproducibleSession
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
        require_torch()
        return ReproducibleSession()

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

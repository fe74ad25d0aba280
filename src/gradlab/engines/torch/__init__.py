"""The torch engine: the same trial by autograd, on the CPU or an accelerator."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gradlab.engines.base import Engine, Tick, require_denormals
from gradlab.engines.torch.require import MISSING, has_torch, require_torch
from gradlab.engines.torch.settings import Repeatable
from gradlab.parts import Catalog
from gradlab.spec.config import Config
from gradlab.trials.inside import evaluation_is_due, evaluations, measure
from gradlab.trials.outcome import Outcome
from gradlab.trials.recorder import Recorder
from gradlab.trials.setup import EVALUATION_ROWS, Setup

TICKS = 20


class Torch(Engine):
    """PyTorch autograd and torch.optim, float32 and float64, on the CPU, CUDA or MPS; the lab's batches and draws."""

    name = "torch"
    numerics: ClassVar[int] = 2
    device: Literal["cpu", "cuda", "mps"] = "cpu"

    def numerics_of(self, config: Config, catalog: Catalog) -> str:
        """Bits depend on the device and on torch's version."""
        version = require_torch().__version__ if has_torch() else "none"
        return f"{self.name}-{self.numerics}-{self.device}-{version}"

    def refusal(self, config: Config, catalog: Catalog) -> str | None:
        """torch itself, the device, and float64 where there is none."""
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

    def train(self, setup: Setup, tick: Tick | None = None) -> Outcome:
        """Forward, loss, autograd's backward, torch's update; on the device, until a number is wanted."""
        require_torch()
        require_denormals()
        with np.errstate(all="ignore"), Repeatable():
            return _train(setup, tick, self.device)


def _train(setup: Setup, tick: Tick | None, device: str) -> Outcome:
    import torch
    from gradlab.engines.torch.functions import loss_value
    from gradlab.engines.torch.module import LabModule
    from gradlab.engines.torch.updates import clip, update_of

    dtype = torch.float32 if setup.dtype == np.float32 else torch.float64
    module = LabModule(setup.mlp, dtype)
    module.take(setup.theta)
    module.to(device)
    record, update = Recorder(setup), update_of(module, setup.optimizer)
    largest = setup.trial.config.train.clip

    def answer(x: NDArray[Any]) -> NDArray[Any]:
        module.eval()
        with torch.no_grad():
            found: NDArray[Any] = module(torch.from_numpy(x).to(device)).cpu().numpy()
        module.train()
        return found

    def keep() -> None:
        if record.steps in setup.snapshots:
            record.snapshot(module.give(), module.running())

    if 0 in setup.moments:
        measure(setup, record, 0, setup.theta, module.running(), None)
    keep()
    if setup.steps == 0:
        x, y = _batch(setup, setup.order(0)[: setup.batch], device)
        with torch.no_grad():
            record.first_loss = float(loss_value(setup.loss, module(x), y).detach())

    for step, rows in setup.batches():
        record.start_clock()
        x, y = _batch(setup, rows, device)
        module.zero_grad(set_to_none=True)
        output = module(x)
        loss = loss_value(setup.loss, output, y)
        correct = int((output.argmax(1) == y).sum()) if setup.dataset.classes is not None else 0
        if not record.step(float(loss.detach()), correct, len(x)):
            break
        loss.backward()
        done = step + 1
        before = module.give() if done in setup.moments else None
        clip(module.parameters(), largest)
        update.step(float(setup.rates[step]))
        record.stop_clock()

        if evaluation_is_due(setup, done):
            record.evaluated(evaluations(setup, answer, EVALUATION_ROWS))
        if before is not None:
            theta = module.give()
            measure(setup, record, done, theta, module.running(), theta - before)
        keep()
        if tick is not None and done % TICKS == 0:
            tick(done, float(loss.detach()))
    return record.outcome(module.give(), module.running())


def _batch(setup: Setup, rows: Any, device: str) -> tuple[Any, Any]:
    import torch

    x, y = setup.dataset.gather(rows, setup.dtype)
    return torch.from_numpy(x).to(device), torch.as_tensor(y).to(device)

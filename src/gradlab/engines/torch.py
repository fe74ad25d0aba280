"""The torch engine: the same trial by autograd, on the CPU or an accelerator."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gradlab.engines.autograd.require import MISSING, has_torch, require_torch
from gradlab.engines.base import Engine, Tick, require_denormals
from gradlab.optim.clipping import clipped
from gradlab.parts import Catalog
from gradlab.spec.config import Config
from gradlab.trial.inside import evaluation_is_due, evaluations, measure
from gradlab.trial.outcome import Outcome
from gradlab.trial.recorder import Recorder
from gradlab.trial.setup import EVALUATION_ROWS, Setup

TICKS = 20


class Torch(Engine):
    """PyTorch autograd, float32 and float64, on the CPU, CUDA or MPS; the lab's own optimisers, batches and draws."""

    name = "torch"
    numerics: ClassVar[int] = 1
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
        """Forward, loss, autograd's backward; update by the lab's optimiser."""
        torch = require_torch()
        require_denormals()
        if torch.get_num_threads() != 1:
            torch.set_num_threads(1)  # the number of threads changes bits, and trials run side by side
        if self.device == "cuda":
            torch.use_deterministic_algorithms(True, warn_only=True)
        with np.errstate(all="ignore"):
            return _train(setup, tick, self.device)


def _train(setup: Setup, tick: Tick | None, device: str) -> Outcome:
    import torch

    from gradlab.engines.autograd.functions import loss_value
    from gradlab.engines.autograd.module import LabModule

    dtype = torch.float32 if setup.dtype == np.float32 else torch.float64
    module = LabModule(setup.mlp, dtype)
    module.take(setup.theta)
    module.to(device)
    record, theta = Recorder(setup), setup.theta.copy()
    state, delta = setup.optimizer.init(theta), None
    clip = setup.trial.config.train.clip

    def answer(x: NDArray[Any]) -> NDArray[Any]:
        module.eval()
        with torch.no_grad():
            found: NDArray[Any] = module(torch.from_numpy(x).to(device)).cpu().numpy()
        module.train()
        return found

    if 0 in setup.moments:
        measure(setup, record, 0, theta, module.running(), None)
    record.snapshot(theta, module.running())
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
        gradient = module.give("grad")
        delta, state = setup.optimizer.update(clipped(gradient, clip), state, theta, float(setup.rates[step]))
        theta += delta
        module.take(theta)
        record.stop_clock()

        done = step + 1
        if evaluation_is_due(setup, done):
            record.evaluated(evaluations(setup, answer, EVALUATION_ROWS))
        if done in setup.moments:
            measure(setup, record, done, theta, module.running(), delta)
        record.snapshot(theta, module.running())
        if tick is not None and done % TICKS == 0:
            tick(done, float(loss.detach()))
    return record.outcome(theta, module.running())


def _batch(setup: Setup, rows: Any, device: str) -> tuple[Any, Any]:
    import torch

    x, y = setup.dataset.gather(rows, setup.dtype)
    return torch.from_numpy(x).to(device), torch.as_tensor(y).to(device)

"""A trial trained by autograd: Gradlab's batches and learning rates, torch's arithmetic."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

import torch
from gradlab.engines.loop import State, Stretch, Trainer
from gradlab.engines.torch.functions import loss_value
from gradlab.engines.torch.module import LabModule
from gradlab.engines.torch.updates import clip, make_update
from gradlab.trials.setup import Setup

Array = NDArray[Any]


class TorchTrainer(Trainer):
    """A module on a device, with its optimizer."""

    def __init__(self, setup: Setup, device: str) -> None:
        self._setup, self._device = setup, device
        self._module = LabModule(setup.mlp, torch.float32 if setup.dtype == np.float32 else torch.float64)
        self._module.load_flat(setup.theta)
        self._module.to(device)
        self._update = make_update(self._module, setup.optimizer)
        self._batches = setup.batches()
        self._before: Array | None = None

    def advance(self, start: int, stop: int) -> Stretch:
        """Forward, loss, backward, clip, update."""
        setup, module, stretch = self._setup, self._module, Stretch()
        largest, classes = setup.trial.config.train.clip, setup.dataset.classes
        for step, rows in islice(self._batches, stop - start):
            x, y = self._on_device(*setup.dataset.gather(rows, setup.dtype))
            module.zero_grad(set_to_none=True)
            output = module(x)
            loss = loss_value(setup.loss, output, y)
            correct = int((output.argmax(1) == y).sum()) if classes is not None else 0
            if not stretch.add(float(loss.detach()), correct, len(x)):
                break
            loss.backward()
            if step + 1 in setup.moments or setup.may_end_after(step + 1):  # the probes may need this update
                self._before = module.to_flat()
            clip(module.parameters(), largest)
            self._update.step(float(setup.rates[step]) * self.rate_factor)
        return stretch

    def state(self) -> State:
        """Return parameters and running statistics on the host."""
        theta = self._module.to_flat()
        return State(theta, self._module.running(), None if self._before is None else theta - self._before)

    def predict(self, x: Array) -> Array:
        """Forward in evaluation mode."""
        self._module.eval()
        with torch.no_grad():
            output: Array = self._module(torch.from_numpy(x).to(self._device)).cpu().numpy()
        self._module.train()
        return output

    def first_loss(self) -> float:
        """Forward in training mode on the first batch."""
        x, y = self._on_device(*self._setup.first_batch())
        with torch.no_grad():
            return float(loss_value(self._setup.loss, self._module(x), y))

    def _on_device(self, x: Array, y: Array) -> tuple[Any, Any]:
        return torch.from_numpy(x).to(self._device), torch.as_tensor(y).to(self._device)

"""A trial trained by autograd: Gradlab's batches and learning rates, torch's arithmetic and optimizers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradlab.engines.loop import State, Stretch, Trainer
from gradlab.engines.torch.module import LabModule, loss_value
from gradlab.optim.optimizers import Optimizer
from gradlab.trials.recorder import count_correct
from gradlab.trials.setup import Setup

# The update of a step: Gradlab's optimizers through `torch.optim`, on the module's device.
#
# A user's optimizer is a pair of pure NumPy functions; it runs unchanged, on the host.


def _sgd(parameters: Iterable[Tensor], own: dict[str, Any], nesterov: bool = False) -> torch.optim.Optimizer:
    momentum = own.get("momentum", 0.0)
    return torch.optim.SGD(  # torch refuses Nesterov without momentum, where it is plain gradient descent
        parameters, 1.0, momentum=momentum, weight_decay=own["weight_decay"], nesterov=nesterov and momentum > 0
    )


def _adam(parameters: Iterable[Tensor], own: dict[str, Any], kind: Any = torch.optim.Adam) -> torch.optim.Optimizer:
    betas = own["beta1"], own["beta2"]
    made: torch.optim.Optimizer = kind(
        parameters, 1.0, betas=betas, eps=own["epsilon"], weight_decay=own["weight_decay"]
    )
    return made


def _rmsprop(parameters: Iterable[Tensor], own: dict[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.RMSprop(
        parameters, 1.0, alpha=own["alpha"], eps=own["epsilon"], weight_decay=own["weight_decay"]
    )


NATIVE: dict[str, Callable[[Iterable[Tensor], dict[str, Any]], torch.optim.Optimizer]] = {
    "sgd": _sgd,
    "momentum": _sgd,
    "nesterov": lambda parameters, own: _sgd(parameters, own, nesterov=True),
    "adam": _adam,
    "adamw": lambda parameters, own: _adam(parameters, own, torch.optim.AdamW),
    "rmsprop": _rmsprop,
}


class Update(ABC):
    """Updates a module's parameters from their gradients."""

    @abstractmethod
    def step(self, lr: float) -> None:
        """One update."""


class TorchUpdate(Update):
    """An update by torch.optim."""

    def __init__(self, module: LabModule, part: Optimizer) -> None:
        self._optimizer = NATIVE[part.name](module.parameters(), part.parameters())

    def step(self, lr: float) -> None:
        """Use this step's learning rate from Gradlab's schedule."""
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._optimizer.step()


class NumpyUpdate(Update):
    """An update by an optimizer's NumPy code."""

    def __init__(self, module: LabModule, part: Optimizer) -> None:
        self._module, self._part = module, part
        self._state = part.init(module.to_flat())

    def step(self, lr: float) -> None:
        """Copy gradients to the host, update, copy parameters back."""
        theta = self._module.to_flat()
        delta, self._state = self._part.update(self._module.to_flat("grad"), self._state, theta, lr)
        self._module.load_flat(theta + delta)


def make_update(module: LabModule, part: Optimizer) -> Update:
    """Return the update for an optimizer: torch's own if there is one."""
    ours = type(part).__module__.startswith("gradlab.")
    return TorchUpdate(module, part) if ours and part.name in NATIVE else NumpyUpdate(module, part)


def clip(parameters: Iterable[Tensor], largest: float | None) -> None:
    """Scale gradients by min(1, c/(‖g‖ + 10⁻⁶)) over all parameters, as in `gradlab.optim.optimizers`."""
    if largest is None:
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    wide = torch.float32 if gradients[0].device.type == "mps" else torch.float64
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g, dtype=wide) for g in gradients]))
    factor = largest / (float(norm) + 1e-6)
    if not factor >= 1:
        for gradient in gradients:
            gradient.mul_(factor)


# A trial trained by autograd: Gradlab's batches and learning rates, torch's arithmetic.

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
            output = module(x, setup.draws(step))
            loss = loss_value(setup.loss, output, y)
            correct = 0
            if classes is not None:
                answers = setup.loss.class_outputs(output.detach().cpu().numpy())
                correct = count_correct(answers, y.cpu().numpy())
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
            return float(loss_value(self._setup.loss, self._module(x, self._setup.draws(0)), y))

    def _on_device(self, x: Array, y: Array) -> tuple[Any, Any]:
        return torch.from_numpy(x).to(self._device), torch.as_tensor(y).to(self._device)

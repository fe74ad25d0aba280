"""The update of a step: the lab's optimizers as `torch.optim` has them, on the module's own device.

An optimizer of the user's own is a pair of pure NumPy functions; it runs as it is, on the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from gradlab.engines.torch.module import LabModule
from gradlab.optim.optimizers.base import Optimizer
from torch import Tensor


def _sgd(parameters: Iterable[Tensor], own: dict[str, Any], nesterov: bool = False) -> torch.optim.Optimizer:
    momentum = own.get("momentum", 0.0)
    return torch.optim.SGD(  # torch refuses Nesterov's form without momentum, where it is plain descent
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
    """Changes a module's parameters by their gradients."""

    @abstractmethod
    def step(self, lr: float) -> None:
        """One update."""


class Native(Update):
    """By torch.optim."""

    def __init__(self, module: LabModule, part: Optimizer) -> None:
        self._optimizer = NATIVE[part.name](module.parameters(), part.parameters())

    def step(self, lr: float) -> None:
        """With this step's learning rate, from the lab's schedule."""
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._optimizer.step()


class OnHost(Update):
    """By any optimizer's own NumPy code."""

    def __init__(self, module: LabModule, part: Optimizer) -> None:
        self._module, self._part = module, part
        self._state = part.init(module.give())

    def step(self, lr: float) -> None:
        """Gradients to the host, the update, parameters back."""
        theta = self._module.give()
        delta, self._state = self._part.update(self._module.give("grad"), self._state, theta, lr)
        self._module.take(theta + delta)


def update_of(module: LabModule, part: Optimizer) -> Update:
    """The update of an optimizer: torch's own where there is one."""
    ours = type(part).__module__.startswith("gradlab.")
    return Native(module, part) if ours and part.name in NATIVE else OnHost(module, part)


def clip(parameters: Iterable[Tensor], largest: float | None) -> None:
    """g · min(1, c/(‖g‖ + 10⁻⁶)) over all parameters, as `gradlab.optim.clipping` has it."""
    if largest is None:
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    wide = torch.float32 if gradients[0].device.type == "mps" else torch.float64
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g, dtype=wide) for g in gradients]))
    factor = largest / (float(norm) + 1e-6)
    if not factor >= 1:
        for gradient in gradients:
            gradient.mul_(factor)

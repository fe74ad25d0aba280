"""Recurrent modules by time step: how the state grows, and how far the gradient reaches back.

PyTorch runs all time steps in one call, so that neither is visible from outside. A few samples are run again, step by
step, beside the pass: with the module's own weights, without its hooks, and without touching any gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from gradlab.torch.statistics import norm
from torch import Tensor, nn

SAMPLES, STEPS = 4, 128
"""The most samples and time steps that are run again: the last ones of a longer sequence."""


@dataclass(frozen=True)
class Recurrence:
    """One recurrent module over its time steps."""

    name: str
    state: tuple[float, ...]
    """Root mean square of the state at every time step."""
    delta: tuple[float, ...]
    """Norm of the gradient of the loss for the state at every time step, through all later ones."""


def growth_of_state(name: str, module: Any, output: Tensor) -> Recurrence | None:
    """Return the size of the output at every time step."""
    if not isinstance(output, Tensor) or output.dim() != 3:
        return None
    by_time = output.detach() if not module.batch_first else output.detach().transpose(0, 1)
    few = by_time[:, :SAMPLES].float()
    sizes = torch.linalg.vector_norm(few.flatten(1), dim=1) / math.sqrt(max(1, few[0].numel()))
    return Recurrence(name, tuple(sizes.tolist()), ())


def reach_of_gradient(name: str, module: Any, inputs: Tensor, gradient: Tensor) -> Recurrence | None:
    """Return the gradient for the state at every time step, given that for the outputs."""
    if module.bidirectional or inputs.dim() != 3 or getattr(module, "proj_size", 0):
        return None
    entries, above = inputs.detach(), gradient.detach()
    if module.batch_first:
        entries, above = entries.transpose(0, 1), above.transpose(0, 1)
    entries, above = entries[-STEPS:, :SAMPLES], above[-STEPS:, :SAMPLES]
    if len(entries) < 8:
        return None
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        outputs, states, state = [], [], None
        for entry in entries:
            entry = entry[None].transpose(0, 1) if module.batch_first else entry[None]
            output, state = type(module).forward(module, entry.contiguous(), state)
            outputs.append(output.reshape(output.shape[-3] * output.shape[-2], -1) if output.dim() == 3 else output)
            states.append(state if isinstance(state, tuple) else (state,))
        wanted = [each for pair in states for each in pair]
        found = torch.autograd.grad(
            outputs, wanted, [g.reshape_as(o) for g, o in zip(above, outputs, strict=True)], allow_unused=True
        )
    width = len(states[0])
    sizes = []
    for place in range(len(states)):
        parts = found[place * width : (place + 1) * width]
        later = (0.0 if part is None else norm(part) for part in parts)
        sizes.append(math.hypot(norm(above[place]), *later))
    rows = [float(torch.linalg.vector_norm(o.detach().float())) / math.sqrt(max(1, o.numel())) for o in outputs]
    return Recurrence(name, tuple(rows), tuple(sizes))


def is_recurrent(module: nn.Module) -> bool:
    """Whether a module is one of PyTorch's recurrent layers."""
    return isinstance(module, nn.RNNBase)

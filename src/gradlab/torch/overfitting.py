"""Can a network learn one batch by heart? If not, something is broken that no data, depth or patience will mend.

A copy of the model is trained, without dropout, by a copy of its optimiser (Adam where there is none). It has to get
far below where it began, and far below the best answer that is the same for every sample.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.handwritten.seeding import seeded

STEPS = 300
RATE = 3e-3
"""Adam's learning rate where no optimiser was given."""
ENOUGH = 0.1
"""Below this share of the loss at the start, and of the best constant answer's, a batch is learned."""


@dataclass(frozen=True)
class Overfit:
    """What came of it."""

    first: float
    last: float
    """The lowest loss of the last tenth of the steps."""
    constant: float | None
    """Of the best answer that is the same for every sample; None where no such answer can be made."""
    steps: int
    optimizer: str

    @property
    def ok(self) -> bool:
        """Whether the batch was learned."""
        bar = self.first if self.constant is None else min(self.first, self.constant)
        return math.isfinite(self.last) and (self.last <= ENOUGH * bar or self.last < 1e-12)

    @property
    def words(self) -> str:
        """The evidence."""
        same = (
            ""
            if self.constant is None
            else f"; the best answer that is the same for every sample gets {self.constant:.3g}"
        )
        went = f"the loss on it went from {self.first:.3g} to {self.last:.3g}"
        return f"in {self.steps} steps of {self.optimizer} {went}{same}"


def try_overfitting(
    model: nn.Module, batch: tuple[Any, Any], loss: Any, optimizer: Any = None, steps: int = STEPS
) -> Overfit:
    """Train a copy on one batch of (input, target); the model itself is not touched."""
    x, y = batch
    with seeded(0):
        copied, its = deepcopy((model, optimizer))
        for module in copied.modules():
            if "Dropout" in type(module).__name__ and hasattr(module, "p"):
                module.p = 0.0
        held = [p for p in copied.parameters() if p.requires_grad]
        if its is None:
            its = torch.optim.Adam(held, RATE) if held else None
        losses: list[float] = []
        output: Any = None
        for _ in range(steps):
            output = copied(x)
            value = loss(output, y)
            losses.append(float(value.detach()))
            if its is None or not value.requires_grad or not math.isfinite(losses[-1]):
                break
            its.zero_grad()
            value.backward()
            its.step()
        tail = losses[-max(1, len(losses) // 10) :]
        name = type(its).__name__ if its is not None else "nothing (no parameter is trainable)"
        return Overfit(losses[0], min(tail), _constant(output, y, loss), len(losses), name)


def _constant(output: Any, target: Any, loss: Any) -> float | None:
    """The loss of the best output that does not depend on the sample."""
    if not isinstance(output, Tensor) or output.dim() < 1 or len(output) < 2:
        return None
    answer = output.detach().mean(0, keepdim=True).clone().requires_grad_()
    by = torch.optim.LBFGS([answer], max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Any:
        by.zero_grad()
        value = loss(answer.expand_as(output), target)
        value.backward()
        return value

    try:
        by.step(closure)
        found = float(loss(answer.expand_as(output), target).detach())
    except (RuntimeError, ValueError, IndexError):  # a loss that wants more than the output
        return None
    return found if math.isfinite(found) else None

"""Can a network learn one batch by heart? If not, data, depth and patience are not what it needs.

A copy of the model is trained, without dropout, by a copy of its optimizer (Adam where there is none). The loss has to
go nine tenths of the way from where it began, and from the best answer that is the same for every sample, down to the
least that any answers could reach.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from gradlab.errors import InvalidInput
from gradlab.trials.seeding import seeded
from torch import Tensor, nn

STEPS = 300
RATE = 3e-3
"""Adam's learning rate where no optimizer was given."""
ENOUGH = 0.1
"""So much of the way down to the floor may be left."""
CLEARLY = 0.9
"""A floor that is no lower than this share of the best constant answer's loss is none."""


@dataclass(frozen=True)
class Overfit:
    """What came of it."""

    first: float
    last: float
    """The lowest loss of the last tenth of the steps."""
    constant: float | None
    """Of the best answer that is the same for every sample; None where no such answer can be made."""
    floor: float
    """The least that any answers could reach: 0, but for smoothed labels and their like."""
    steps: int
    optimizer: str

    @property
    def ok(self) -> bool:
        """Whether the batch was learned."""
        told = self.constant is not None and self.constant - self.floor > ENOUGH * abs(self.first - self.floor)
        bar = min(self.first, self.constant) if told and self.constant is not None else self.first
        return math.isfinite(self.last) and self.last - self.floor <= max(ENOUGH * (bar - self.floor), 1e-12)

    @property
    def words(self) -> str:
        """The evidence."""
        same = (
            ""
            if self.constant is None
            else f"the best answer that is the same for every sample gets {self.constant:.3g}"
        )
        least = "" if abs(self.floor) < 1e-3 * abs(self.first) else f"no answers could get below {self.floor:.3g}"
        went = f"in {self.steps} steps of {self.optimizer} the loss on it went from {self.first:.3g} to {self.last:.3g}"
        return "; ".join(filter(None, [went, same, least]))


def try_overfitting(
    model: nn.Module, batch: tuple[Any, Any], loss: Any, optimizers: Sequence[Any] = (), steps: int = STEPS
) -> Overfit:
    """Train a copy on one batch of (input, target); the model itself is not touched."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise InvalidInput("overfit: one batch, as (input, target)")
    x, y = batch
    with seeded(0):
        copied, its = _copies(model, optimizers)
        losses: list[float] = []
        output: Any = None

        def closure() -> Any:
            nonlocal output
            copied.zero_grad()
            output = copied(x)
            value = loss(output, y)
            losses.append(float(value.detach()))
            if value.requires_grad:
                value.backward()
            return value

        for _ in range(steps):
            for each in its:
                each.step(closure)
            if not its:
                closure()
            if not its or not math.isfinite(losses[-1]):
                break
        tail = losses[-max(1, len(losses) // 10) :]
        names = ", ".join(dict.fromkeys(type(each).__name__ for each in its)) or "nothing (no parameter is trainable)"
        free = _best(output, y, loss, same=False)
        constant = _best(output, y, loss, same=True)
        bar = losses[0] if constant is None else min(losses[0], constant)
        floor = free if free is not None and free < CLEARLY * bar else 0.0  # of a loss that draws numbers there is none
        return Overfit(losses[0], min(tail), constant, floor, steps, names)


def _copies(model: nn.Module, optimizers: Sequence[Any]) -> tuple[nn.Module, list[Any]]:
    """Of model and optimizers, which go on holding the copy's parameters; without dropout."""
    try:
        copied, its = deepcopy((model, list(optimizers)))
    except Exception as error:
        raise InvalidInput(
            f"overfit: the model cannot be copied ({error}); try it on one that has not run yet"
        ) from None
    for original, each in zip(optimizers, its, strict=True):
        if hasattr(original, "_params"):  # LBFGS: not part of what it lets be copied
            each._params, each._numel_cache = each.param_groups[0]["params"], None
    for module in copied.modules():
        if "Dropout" in type(module).__name__ and hasattr(module, "p"):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):  # inside attention, between recurrent layers
            module.dropout = 0.0
    held = [parameter for parameter in copied.parameters() if parameter.requires_grad]
    return copied, its or ([torch.optim.Adam(held, RATE)] if held else [])


def _best(output: Any, target: Any, loss: Any, *, same: bool) -> float | None:
    """The loss of the best output, whatever it is, or of the best that does not depend on the sample."""
    if not isinstance(output, Tensor) or output.dim() < 1 or len(output) < 2:
        return None
    start = output.detach().mean(0, keepdim=True) if same else output.detach()
    answer = start.clone().requires_grad_()
    by = torch.optim.LBFGS([answer], lr=1.0, max_iter=200, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def closure() -> Any:
        by.zero_grad()
        value = loss(answer.expand_as(output), target)
        value.backward()
        return value

    try:
        by.step(closure)
        found = float(loss(answer.expand_as(output), target).detach())
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError):  # a loss that wants more than the output
        return None
    return found if math.isfinite(found) else None

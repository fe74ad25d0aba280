"""Overfit one batch: a network that cannot do this has a bug that more data, depth or training will not fix.

A copy of the model is trained without dropout by a copy of its optimizer (default: Adam). To pass, the loss must cover
nine tenths of the distance to its lower bound, both from its initial value and from the best constant prediction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from gradlab.errors import InvalidInput
from gradlab.torch.batches import check_batch, run_batch, split_batch
from gradlab.trials.seeding import seeded
from torch import Tensor, nn

STEPS = 300
RATE = 3e-3
"""Adam's learning rate if no optimizer was given."""
REMAINING = 0.1
"""Share of the distance to the floor that may remain."""
FLOOR_SHARE = 0.9
"""A floor above this share of the best constant prediction's loss counts as none."""


@dataclass(frozen=True)
class Overfit:
    """The result of overfitting one batch."""

    first: float
    last: float
    """The lowest loss in the last tenth of the steps."""
    constant: float | None
    """Loss of the best prediction that is the same for every sample; None if there is no such prediction."""
    floor: float
    """The lowest loss that any outputs can reach: 0, except for smoothed labels and the like."""
    steps: int
    optimizer: str

    @property
    def bounded(self) -> bool:
        """Whether the loss has a least value. One that falls below 0 far and wide cannot be fitted, only run away."""
        return self.last >= min(0.0, self.floor) - max(1.0, abs(self.first)) or self.floor < 0

    @property
    def ok(self) -> bool:
        """Whether the batch was fitted."""
        useful = self.constant is not None and self.constant - self.floor > REMAINING * abs(self.first - self.floor)
        bar = min(self.first, self.constant) if useful and self.constant is not None else self.first
        if not math.isfinite(self.last) or not self.bounded:
            return False
        return self.last - self.floor <= max(REMAINING * (bar - self.floor), 1e-12)

    @property
    def words(self) -> str:
        """The evidence, in words."""
        same = (
            ""
            if self.constant is None
            else f"the best answer that is the same for every sample gets {self.constant:.3g}"
        )
        least = "" if abs(self.floor) < 1e-3 * abs(self.first) else f"no answers could get below {self.floor:.3g}"
        went = f"in {self.steps} steps of {self.optimizer} the loss on it went from {self.first:.3g} to {self.last:.3g}"
        runs = "" if self.bounded else "it falls without bound, so that its sign is wrong or it has no least value"
        return "; ".join(filter(None, [went, same, least, runs]))


def try_overfitting(
    model: nn.Module, batch: Any, loss: Any = None, optimizers: Sequence[Any] = (), steps: int = STEPS
) -> Overfit:
    """Train a copy on one batch (see `batches.py`). The model itself is not modified."""
    if loss is None and isinstance(batch, tuple | list):
        raise InvalidInput("overfit needs the loss too: diagnose(overfit=(x, y), loss=loss_fn)")
    _, y = split_batch(batch, loss)
    with seeded(0):
        copied, its = _copy_for_training(model, optimizers)
        check_batch(copied, batch, loss)
        losses: list[float] = []
        output: Any = None

        def closure() -> Any:
            nonlocal output
            copied.zero_grad()
            output, value = run_batch(copied, batch, loss)
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
        free = None if loss is None else _minimize_output_loss(output, y, loss, same=False)
        constant = None if loss is None else _minimize_output_loss(output, y, loss, same=True)
        bar = losses[0] if constant is None else min(losses[0], constant)
        floor = free if free is not None and free < FLOOR_SHARE * bar else 0.0  # a stochastic loss has no floor
        return Overfit(losses[0], min(tail), constant, floor, steps, names)


def _copy_for_training(model: nn.Module, optimizers: Sequence[Any]) -> tuple[nn.Module, list[Any]]:
    """Copy model and optimizers together, so that the copied optimizers hold the copy's parameters; disable dropout."""
    try:
        copied, its = deepcopy((model, list(optimizers)))
    except Exception as error:
        raise InvalidInput(
            f"overfit: the model cannot be copied ({error}); try it on one that has not run yet"
        ) from None
    for original, each in zip(optimizers, its, strict=True):
        if hasattr(original, "_params"):  # LBFGS does not copy these
            each._params, each._numel_cache = each.param_groups[0]["params"], None
    for module in copied.modules():
        if "Dropout" in type(module).__name__ and hasattr(module, "p"):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):  # inside attention, between recurrent layers
            module.dropout = 0.0
    held = [parameter for parameter in copied.parameters() if parameter.requires_grad]
    return copied, its or ([torch.optim.Adam(held, RATE)] if held else [])


def _minimize_output_loss(output: Any, target: Any, loss: Any, *, same: bool) -> float | None:
    """Return the loss of the best output, or of the best output that is the same for every sample (`same`)."""
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
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError):  # a loss that needs more than the output
        return None
    return found if math.isfinite(found) else None

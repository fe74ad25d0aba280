"""Call a model with any batch, and take its loss: (input, target), several inputs, a dict, outputs that hold a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.engines.torch.tensors import tensors_in
from gradlab.errors import InvalidInput, described
from gradlab.trials.seeding import seeded
from gradlab.words import written

ACCEPTED = (
    "(input, target) with a loss function, ((input, input, …), target), a dict of keyword arguments for a model that "
    "returns its loss, or (dict, target)"
)


def run_batch(model: nn.Module, batch: Any, loss: Any = None) -> tuple[Any, Any]:
    """Return the outputs of a model for a batch, and the loss."""
    given, target = split_batch(batch, loss)
    output = call_model(model, given)
    return output, find_loss(output, target, loss)


def split_batch(batch: Any, loss: Any = None) -> tuple[Any, Any]:
    """Return what the model takes and what the loss takes besides the outputs."""
    if isinstance(batch, Mapping):
        return batch, batch.get("labels", batch.get("label"))
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], batch[1]
    if isinstance(batch, tuple | list) and len(batch) > 2:
        return tuple(batch[:-1]), batch[-1]
    if loss is None and isinstance(batch, Tensor):
        return batch, None
    raise InvalidInput(f"a batch must be {ACCEPTED}")


def call_model(model: nn.Module, given: Any) -> Any:
    """Call a model with one input, several, or keyword arguments."""
    if isinstance(given, Mapping):
        return model(**given)
    return model(*given) if isinstance(given, tuple) else model(given)


def find_loss(output: Any, target: Any, loss: Any) -> Tensor:
    """Return the loss: what `loss(output, target)` gives, or what the output itself holds."""
    if loss is not None:
        value = loss(output) if target is None and not isinstance(output, Tensor) else loss(output, target)
    elif isinstance(output, Mapping) and "loss" in output:
        value = output["loss"]
    else:
        value = getattr(output, "loss", None)
        value = next(iter(tensors_in(output)), None) if value is None else value
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise InvalidInput("no loss: give a loss function, or a model that returns its loss (one number)")
    return value


def check_batch(model: nn.Module, batch: Any, loss: Any) -> None:
    """Refuse a batch that the model does not take, with what it says."""
    try:
        run_batch(model, batch, loss)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(f"the model does not take this batch ({described(error)}); a batch is {ACCEPTED}") from error


# Overfit one batch: a network that cannot do this has a bug that more data, depth or training will not fix.
#
# A copy of the model is trained without dropout by a copy of its optimizer (default: Adam). To pass, the loss must
# cover nine tenths of the distance to its lower bound, both from its initial value and from the best constant
# prediction.

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
            f"the best answer that is the same for every sample gets {written(self.constant)}"
            if self.constant is not None
            else ""
        )
        least = "" if abs(self.floor) < 1e-3 * abs(self.first) else f"no answers could get below {written(self.floor)}"
        went = f"in {self.steps} steps of {self.optimizer} the loss on it went from {written(self.first)}"
        went = f"{went} to {written(self.last)}"
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
            for optimizer in its:
                optimizer.step(closure)
            if not its:
                closure()
            if not its or not math.isfinite(losses[-1]):
                break
        tail = losses[-max(1, len(losses) // 10) :]
        kinds = dict.fromkeys(type(optimizer).__name__ for optimizer in its)
        names = ", ".join(kinds) or "nothing (no parameter is trainable)"
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
    for original, copy in zip(optimizers, its, strict=True):
        if hasattr(original, "_params"):  # LBFGS does not copy these
            copy._params, copy._numel_cache = copy.param_groups[0]["params"], None
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
        least = float(loss(answer.expand_as(output), target).detach())
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError):  # a loss that needs more than the output
        return None
    return least if math.isfinite(least) else None


# The gradient noise scale: the batch size at which the noise of a gradient equals its signal.
#
# With g_i the gradients of b-sized parts of a batch and G that of the whole, tr Σ = b · mean‖g_i − G‖² · k/(k−1) and
# |G|² is corrected for its own noise; B = tr Σ / |G|² (the simple noise scale of McCandlish and others, 2018). Batches
# far below B give noisy steps; batches far above it waste samples.


@dataclass(frozen=True)
class NoiseScale:
    """An estimate of the noise scale."""

    scale: float | None
    """Batch size; None if the signal is smaller than what the noise alone would give."""
    variance: float
    """tr Σ, of one sample."""
    signal: float
    """|G|², without its noise."""
    parts: int
    samples: int

    def __str__(self) -> str:
        if self.scale is None:
            return f"The gradient of {self.samples:,} samples is all noise: give a larger batch to estimate its scale."
        return f"Gradient noise scale: about {self.scale:,.0f} samples (from {self.parts} parts of {self.samples:,})."


def estimate_noise_scale(model: nn.Module, batch: Any, loss: Any = None, parts: int = 8) -> NoiseScale:
    """Estimate the noise scale from the gradients of parts of a batch. The model is copied, and left as it is."""
    samples = _count(batch)
    if parts < 2 or samples < 2 * parts:
        raise InvalidInput(f"noise scale: a batch of {samples} samples is too small for {parts} parts")
    size = samples // parts
    with seeded(0):
        copied = deepcopy(model)
        held = [parameter for parameter in copied.parameters() if parameter.requires_grad]
        total = [torch.zeros_like(parameter, dtype=torch.float32) for parameter in held]
        squares = 0.0
        for part in range(parts):
            value = run_batch(copied, _cut(batch, part * size, (part + 1) * size, samples), loss)[1]
            for whole, gradient in zip(total, torch.autograd.grad(value, held, allow_unused=True), strict=True):
                if gradient is not None:
                    whole += gradient.detach().float() / parts
                    squares += float(gradient.detach().float().square().sum()) / parts
    mean = sum(float(whole.square().sum()) for whole in total)
    variance = size * (squares - mean) * parts / (parts - 1)
    signal = mean - variance / (size * parts)
    return NoiseScale(variance / signal if signal > 0 else None, variance, signal, parts, size * parts)


def _count(value: Any) -> int:
    if isinstance(value, Tensor):
        return len(value) if value.dim() else 0
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return max((_count(item) for item in inner), default=0)


def _cut(value: Any, start: int, end: int, samples: int) -> Any:
    if isinstance(value, Tensor):
        return value[start:end] if value.dim() and len(value) == samples else value
    if isinstance(value, dict):
        return {key: _cut(item, start, end, samples) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_cut(item, start, end, samples) for item in value)
    return value

"""The gradient noise scale: the batch size at which the noise of a gradient equals its signal.

With g_i the gradients of b-sized parts of a batch and G that of the whole, tr Σ = b · mean‖g_i − G‖² · k/(k−1) and
|G|² is corrected for its own noise; B = tr Σ / |G|² (the simple noise scale of McCandlish and others, 2018). Batches
far below B give noisy steps; batches far above it waste samples.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from gradlab.errors import InvalidInput
from gradlab.torch.batches import run_batch
from gradlab.trials.seeding import seeded
from torch import Tensor, nn


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
            for whole, found in zip(total, torch.autograd.grad(value, held, allow_unused=True), strict=True):
                if found is not None:
                    whole += found.detach().float() / parts
                    squares += float(found.detach().float().square().sum()) / parts
    mean = sum(float(whole.square().sum()) for whole in total)
    variance = size * (squares - mean) * parts / (parts - 1)
    signal = mean - variance / (size * parts)
    return NoiseScale(variance / signal if signal > 0 else None, variance, signal, parts, size * parts)


def _count(value: Any) -> int:
    if isinstance(value, Tensor):
        return len(value) if value.dim() else 0
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return max((_count(each) for each in inner), default=0)


def _cut(value: Any, start: int, end: int, samples: int) -> Any:
    if isinstance(value, Tensor):
        return value[start:end] if value.dim() and len(value) == samples else value
    if isinstance(value, dict):
        return {key: _cut(each, start, end, samples) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_cut(each, start, end, samples) for each in value)
    return value

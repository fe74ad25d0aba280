"""Statistics of one tensor: an activation, its gradient, or a parameter's gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

NEAR = 0.97
"""An output in a bounded range is saturated beyond this share of the range."""


@dataclass
class ModuleStatistics:
    """Statistics of one module: activations of its latest call, the largest gradient of all calls."""

    name: str
    kind: str
    order: int
    calls: int = 0
    shape: tuple[int, ...] = ()
    mean: float = 0.0
    std: float = 0.0
    rms: float = 0.0
    zeros: float = 0.0
    """Share of exact zeros."""
    dead: float = 0.0
    """Share of units that are 0 on the whole batch."""
    saturated: float = 0.0
    """Share of entries near the ends of a bounded range."""
    nonfinite: int = 0
    delta: float | None = None
    """Root mean square of the gradient of the output."""
    delta_nonfinite: int = 0
    deltas: list[float] = field(default_factory=list, repr=False)


class GradientStatistics(NamedTuple):
    """Statistics of one parameter's gradient, unscaled, with the norm of the parameter at that moment."""

    l2: float
    mean_abs: float
    nonfinite: int
    size: float


def record_activation(seen: ModuleStatistics, tensor: Tensor, axis: int, most: int) -> None:
    """Record the statistics of an activation with units along `axis`, from at most about `most` entries."""
    with torch.no_grad():
        seen.shape = tuple(tensor.shape)
        seen.nonfinite += count_nonfinite(tensor)
        values = sample_entries(tensor, most)
        kept = values[torch.isfinite(values)]
        if kept.numel() == 0:
            return
        seen.mean, seen.rms = float(kept.mean()), float(kept.square().mean().sqrt())
        seen.std = float(kept.std(correction=0))
        seen.zeros = float((kept == 0).float().mean())
        seen.dead = _dead_share(tensor, axis)
        low, high = float(kept.min()), float(kept.max())
        seen.saturated = 0.0
        if low >= -1 and high <= 1:
            ends = kept.abs() > NEAR if low < 0 else (kept > NEAR) | (kept < 1 - NEAR)
            seen.saturated = float(ends.float().mean())


def record_gradient(seen: ModuleStatistics, gradient: Tensor, scale: float, most: int) -> None:
    """Record the gradient of a module's output."""
    values = sample_entries(gradient, most) / scale
    finite = torch.isfinite(values)
    seen.delta_nonfinite += count_nonfinite(gradient)
    if finite.any():
        seen.deltas.append(float(values[finite].square().mean().sqrt()))


def measure_gradient(parameter: Tensor, scale: float) -> GradientStatistics:
    """Measure a parameter's gradient just after it was accumulated."""
    assert parameter.grad is not None
    gradient = parameter.grad.detach()
    gradient = gradient.coalesce().values() if gradient.is_sparse else gradient
    values = widen(gradient)
    return GradientStatistics(
        float(torch.linalg.vector_norm(values)) / scale,
        float(gradient.abs().sum(dtype=_widest_dtype(gradient.abs()))) / max(parameter.numel(), 1) / scale,
        count_nonfinite(gradient),
        norm(parameter),
    )


def unit_axis(module: nn.Module, tensor: Tensor, known: dict[tuple[int, ...], int]) -> int:
    """Return the axis of the units.

    It is the channel axis for convolutions and their norms, and the last axis for matrices. Other modules keep the axis
    last used for the same shape.
    """
    shape, last = tuple(tensor.shape), tensor.dim() - 1
    dims = {parameter.dim() for parameter in module.parameters(recurse=False)}
    if max(dims, default=0) > 2 or ("Norm" in type(module).__name__ and hasattr(module, "running_mean")):
        known[shape] = min(1, last)
    elif 2 in dims:
        known[shape] = last
    return known.get(shape, 1 if tensor.dim() == 4 else last)


def count_nonfinite(tensor: Tensor) -> int:
    """Count the entries that are not finite."""
    return tensor.numel() - int(torch.isfinite(tensor).sum())


def norm(tensor: Tensor) -> float:
    """‖·‖₂."""
    return float(torch.linalg.vector_norm(widen(tensor.detach())))


def sample_entries(tensor: Tensor, most: int) -> Tensor:
    """Return all entries, or every k-th; k is coprime to every axis size, so that no unit is missed or favored."""
    flat = tensor.detach().reshape(-1)
    step = max(1, flat.numel() // most)
    while step > 1 and math.gcd(step, flat.numel()) != 1:
        step += 1
    return widen(flat[::step])


def widen(tensor: Tensor) -> Tensor:
    """Convert to real numbers in the highest precision of the device."""
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.to(_widest_dtype(real))


def _widest_dtype(tensor: Tensor) -> torch.dtype:
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _dead_share(tensor: Tensor, axis: int) -> float:
    """Return the share of units that are exactly 0 everywhere."""
    if tensor.dim() < 2:
        return 0.0
    others = tuple(index for index in range(tensor.dim()) if index != axis)
    return float((tensor.detach().abs().amax(dim=others) == 0).float().mean())

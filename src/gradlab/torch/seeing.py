"""What is measured of one tensor: an activation, the gradient of one, a parameter's gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

NEAR = 0.97
"""Beyond this share of its range a bounded output is saturated."""


@dataclass
class Seen:
    """One module: activations of its latest call, the largest gradient of any."""

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
    """Share of units that are 0 throughout."""
    saturated: float = 0.0
    """Share of entries near the ends of a bounded range."""
    nonfinite: int = 0
    delta: float | None = None
    """Root mean square of the gradient of its output."""
    delta_nonfinite: int = 0
    deltas: list[float] = field(default_factory=list, repr=False)


class Gradient(NamedTuple):
    """Of one parameter tensor, unscaled, with the size of the parameter at that moment."""

    l2: float
    mean_abs: float
    nonfinite: int
    size: float


def look(seen: Seen, tensor: Tensor, axis: int, most: int) -> None:
    """Note what an activation shows; units lie along `axis`, of a large tensor `most` entries are looked at."""
    with torch.no_grad():
        seen.shape = tuple(tensor.shape)
        seen.nonfinite += nonfinite_in(tensor)
        values = sampled(tensor, most)
        kept = values[torch.isfinite(values)]
        if kept.numel() == 0:
            return
        seen.mean, seen.rms = float(kept.mean()), float(kept.square().mean().sqrt())
        seen.std = float(kept.std(correction=0))
        seen.zeros = float((kept == 0).float().mean())
        seen.dead = _dead(tensor, axis)
        low, high = float(kept.min()), float(kept.max())
        seen.saturated = 0.0
        if low >= -1 and high <= 1:
            ends = kept.abs() > NEAR if low < 0 else (kept > NEAR) | (kept < 1 - NEAR)
            seen.saturated = float(ends.float().mean())


def signal(seen: Seen, gradient: Tensor, scale: float, most: int) -> None:
    """Note the gradient of a module's output."""
    values = sampled(gradient, most) / scale
    finite = torch.isfinite(values)
    seen.delta_nonfinite += nonfinite_in(gradient)
    if finite.any():
        seen.deltas.append(float(values[finite].square().mean().sqrt()))


def gradient_of(parameter: Tensor, scale: float) -> Gradient:
    """Of a parameter, as it has just been accumulated."""
    assert parameter.grad is not None
    gradient = parameter.grad.detach()
    gradient = gradient.coalesce().values() if gradient.is_sparse else gradient
    values = precise(gradient)
    return Gradient(
        float(torch.linalg.vector_norm(values)) / scale,
        float(gradient.abs().sum(dtype=_wide(gradient.abs()))) / max(parameter.numel(), 1) / scale,
        nonfinite_in(gradient),
        norm(parameter),
    )


def unit_axis(module: nn.Module, tensor: Tensor, known: dict[tuple[int, ...], int]) -> int:
    """Along which axis units lie: channels of convolutions and their norms, else the last; others as before them."""
    shape, last = tuple(tensor.shape), tensor.dim() - 1
    dims = {parameter.dim() for parameter in module.parameters(recurse=False)}
    if max(dims, default=0) > 2 or ("Norm" in type(module).__name__ and hasattr(module, "running_mean")):
        known[shape] = min(1, last)
    elif 2 in dims:
        known[shape] = last
    return known.get(shape, 1 if tensor.dim() == 4 else last)


def nonfinite_in(tensor: Tensor) -> int:
    """How many entries are not finite, of all of them."""
    return tensor.numel() - int(torch.isfinite(tensor).sum())


def norm(tensor: Tensor) -> float:
    """‖·‖₂."""
    return float(torch.linalg.vector_norm(precise(tensor.detach())))


def sampled(tensor: Tensor, most: int) -> Tensor:
    """All entries, or every k-th; k has no factor in common with any axis, so that no unit is missed or preferred."""
    flat = tensor.detach().reshape(-1)
    step = max(1, flat.numel() // most)
    while step > 1 and math.gcd(step, flat.numel()) != 1:
        step += 1
    return precise(flat[::step])


def precise(tensor: Tensor) -> Tensor:
    """Real numbers in the highest precision that the device has."""
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.to(_wide(real))


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _dead(tensor: Tensor, axis: int) -> float:
    """Share of units that are exactly 0 everywhere."""
    if tensor.dim() < 2:
        return 0.0
    others = tuple(index for index in range(tensor.dim()) if index != axis)
    return float((tensor.detach().abs().amax(dim=others) == 0).float().mean())

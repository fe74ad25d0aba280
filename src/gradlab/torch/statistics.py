"""Statistics of one tensor: an activation, its gradient, or a parameter's gradient.

Every number is made from at most `most` entries of a tensor, in its own precision, in a handful of reductions without
a copy of the whole. Sizes that float32 cannot square (below 1e-15, above 1e15) are measured again in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

NEAR = 0.97
"""An output in a bounded range is saturated beyond this share of the range."""
CHUNK = 2**17
"""Entries that one reduction takes at a time: float32 sums of more lose digits, and half precision is widened."""
FEW_SAMPLES, FEW_TOKENS, FEW_FEATURES = 16, 32, 256
"""The most samples, tokens and features that are compared for their similarity."""
SMALLEST, LARGEST = 1e-15, 1e15


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
    spread: float | None = None
    """Share of the activations' energy that differs between samples, of modules on the spine; None of a single one."""
    token_spread: float | None = None
    """Share of the energy that differs between the tokens of a sample, of outputs (samples, tokens, units)."""
    nonfinite: int = 0
    delta: float | None = None
    """Root mean square of the gradient of the output."""
    delta_nonfinite: int = 0
    deltas: list[float] = field(default_factory=list, repr=False)
    source: str = ""
    """The row whose output it received as it was, if it did."""

    @property
    def idle(self) -> bool:
        """Whether it hands on what it gets: Identity and Dropout."""
        return self.kind == "Identity" or "Dropout" in self.kind or "DropPath" in self.kind


class GradientStatistics(NamedTuple):
    """Statistics of one parameter's gradient, unscaled."""

    l2: float
    mean_abs: float
    nonfinite: int


# ---------------------------------------------------------------------- what is recorded


def record_activation(
    seen: ModuleStatistics,
    tensor: Tensor,
    find_axis: Callable[[Tensor], int],
    most: int,
    *,
    compared: bool = True,
    nonlinear: bool = True,
) -> None:
    """Record the statistics of an activation with units along an axis, from at most about `most` entries.

    Samples and tokens are compared with each other only if `compared`; single zeros are looked for if `nonlinear`.
    """
    with torch.no_grad():
        dense = plain(tensor)
        if dense.numel() == 0:
            return
        seen.shape = tuple(dense.shape)
        total = float(dense.sum(dtype=_sum_dtype(dense)))
        values = sample_entries(dense, most)
        if not math.isfinite(total):
            seen.nonfinite += count_nonfinite(dense)
            values = values[torch.isfinite(values)]
            if values.numel() == 0:
                return
        low, high = (float(end) for end in torch.aminmax(values))
        if max(-low, high) > LARGEST or 0 < max(-low, high) < SMALLEST:
            values = values.to(widest_dtype(values))
        root = math.sqrt(values.numel())
        whole = values.numel() == dense.numel() and math.isfinite(total)
        seen.mean = total / values.numel() if whole else float(values.mean())
        seen.rms = float(torch.linalg.vector_norm(values)) / root
        if 2 * seen.mean**2 < seen.rms**2:
            seen.std = math.sqrt(seen.rms**2 - seen.mean**2)
        else:  # the difference of two numbers that are almost equal loses digits
            seen.std = float(torch.linalg.vector_norm(values - seen.mean)) / root
        seen.zeros = seen.dead = seen.saturated = 0.0
        axis = find_axis(dense)
        if low == 0 or high == 0 or (nonlinear and _has_zeros(values)):
            seen.zeros = 1.0 - int(torch.count_nonzero(values)) / values.numel()
            if seen.zeros:
                seen.dead = _dead_share(dense, axis)
        if low >= -1 and high <= 1:
            ends = values.abs() > NEAR if low < 0 else (values > NEAR) | (values < 1 - NEAR)
            seen.saturated = int(torch.count_nonzero(ends)) / values.numel()
        if compared:
            seen.spread, seen.token_spread = measure_spread(dense)


def record_gradient(seen: ModuleStatistics, gradient: Tensor, scale: float, most: int) -> None:
    """Record the gradient of a module's output."""
    dense = plain(gradient.detach())
    if dense.numel() == 0:
        return
    values = sample_entries(dense, most)
    size = norm(values)
    if not math.isfinite(size) or (values.numel() < dense.numel() and count_nonfinite(dense)):
        seen.delta_nonfinite += count_nonfinite(dense)
        values = values[torch.isfinite(values)]
        size = norm(values)
    if values.numel():
        seen.deltas.append(size / math.sqrt(values.numel()) / scale)


def measure_gradient(gradient: Tensor, entries: int, scale: float, most: int) -> GradientStatistics:
    """Measure the gradient of a parameter of so many entries."""
    dense = plain(gradient)
    if dense.numel() == 0:
        return GradientStatistics(0.0, 0.0, 0)
    l2 = norm(dense)
    sampled = sample_entries(dense, most)
    share = float(sampled.abs().mean()) * dense.numel() / max(entries, 1)
    return GradientStatistics(l2 / scale, share / scale, 0 if math.isfinite(l2) else count_nonfinite(dense))


def measure_spread(tensor: Tensor) -> tuple[float | None, float | None]:
    """Return which share of the energy differs between samples and, of three axes, between the tokens of a sample.

    With x̄ the mean over samples, Σ‖x − x̄‖² / Σ‖x‖². It is 1 for unrelated samples, 0 if all look the same.
    """
    if tensor.dim() < 2 or tensor.shape[0] < 2:
        return None, None
    few = tensor[:FEW_SAMPLES]
    between = None
    if tensor.dim() == 3:
        tokens = few[:, :: max(1, few.shape[1] // FEW_TOKENS), :: max(1, few.shape[2] // FEW_FEATURES)].float()
        between = _share_apart(tokens, 1) if tokens.shape[1] > 1 else None
        flat = tokens.flatten(1)
    else:
        flat = few.reshape(len(few), -1)
        flat = flat[:, :: max(1, flat.shape[1] // (4 * FEW_FEATURES))].float()
    return _share_apart(flat, 0), between


def _share_apart(values: Tensor, axis: int) -> float | None:
    whole = norm(values)
    if not whole or not math.isfinite(whole):
        return None
    return (norm(values - values.mean(axis, keepdim=True)) / whole) ** 2


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


# ---------------------------------------------------------------------- how it is measured


def plain(tensor: Any) -> Tensor:
    """Return the numbers that this process holds, real and dense: of a shard, of ragged rows, of a sparse one."""
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.is_nested:
        tensor = tensor.values() if tensor.layout == torch.jagged else torch.cat([t.flatten() for t in tensor.unbind()])
    if tensor.is_sparse:
        tensor = tensor.coalesce().values()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def count_nonfinite(tensor: Tensor) -> int:
    """Count the entries that are not finite. A finite sum has none, so that all is asked in one reduction."""
    if math.isfinite(float(tensor.sum(dtype=_sum_dtype(tensor)))):
        return 0
    return sum(chunk.numel() - int(torch.isfinite(chunk).sum()) for chunk in flat(tensor).split(CHUNK))


def norm(tensor: Tensor) -> float:
    """‖·‖₂, chunk by chunk."""
    values = plain(tensor.detach())
    if values.numel() == 0:
        return 0.0
    if values.numel() <= CHUNK:
        return _norm_of_chunk(values)
    return math.hypot(*(_norm_of_chunk(chunk) for chunk in flat(values).split(CHUNK)))


def _norm_of_chunk(values: Tensor) -> float:
    found = float(torch.linalg.vector_norm(values, dtype=_sum_dtype(values)))
    if SMALLEST < found < LARGEST:
        return found
    return float(torch.linalg.vector_norm(values, dtype=widest_dtype(values)))


def sample_entries(tensor: Tensor, most: int) -> Tensor:
    """Return all entries, or every k-th; k is coprime to every axis size, so that no unit is missed or favored."""
    entries = flat(plain(tensor.detach()))
    step = max(1, entries.numel() // most)
    while step > 1 and math.gcd(step, entries.numel()) != 1:
        step += 1
    taken = entries[::step]
    return taken.float() if taken.dtype in (torch.float16, torch.bfloat16) or not taken.is_floating_point() else taken


def flat(tensor: Tensor) -> Tensor:
    """Return the entries as a vector; those of a permuted tensor in the order of its memory, which needs no copy."""
    if not tensor.is_contiguous() and tensor.numel() and tensor.untyped_storage().nbytes() and _is_dense(tensor):
        return tensor.as_strided((tensor.numel(),), (1,))
    return tensor.reshape(-1)


def _is_dense(tensor: Tensor) -> bool:
    """Whether a permuted tensor fills its memory without gaps or overlaps."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def widest_dtype(tensor: Tensor) -> torch.dtype:
    """Return the highest precision of the device."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _sum_dtype(tensor: Tensor) -> torch.dtype:
    return tensor.dtype if tensor.dtype in (torch.float32, torch.float64) else torch.float32


def _has_zeros(values: Tensor) -> bool:
    """Whether some of every eighth entry are exactly 0: a cheap question before the counting."""
    few = values[::8]
    return int(torch.count_nonzero(few)) < few.numel()


def _dead_share(tensor: Tensor, axis: int) -> float:
    """Return the share of units that are exactly 0 everywhere."""
    if tensor.dim() < 2:
        return 0.0
    others = tuple(index for index in range(tensor.dim()) if index != axis)
    low, high = tensor.amin(dim=others), tensor.amax(dim=others)
    return float(((low == 0) & (high == 0)).float().mean())

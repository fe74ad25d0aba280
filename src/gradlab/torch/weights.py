"""Parameter tensors: their gradient, their size, how far a step moved them. Large ones are measured by a sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from gradlab.torch import statistics
from gradlab.torch.names import clean_name
from gradlab.torch.statistics import GradientStatistics
from torch import Tensor, nn

FEWEST, MOST = 2_048, 4_096
"""A sample of a tensor has a sixteenth of its entries, within these bounds; of small tensors it is all."""


@dataclass(frozen=True)
class Weight:
    """One parameter tensor, with all its names."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    trainable: bool
    held: bool | None
    """Whether an optimizer holds it; None if no optimizer was given."""
    grad_l2: float | None
    grad_mean_abs: float | None
    weight_l2: float
    """Norm before the step, if there was one; of more than 8,192 entries an estimate from a sample."""
    update_ratio: float | None
    """‖ΔW‖/‖W‖ of the step; None if there was no step, or if W was 0."""
    nonfinite: int
    moved: float | None = None
    """Share of the entries that the step changed."""
    step_rms: float | None = None
    """Root mean square of the step."""
    dtype: str = "float32"
    same_rows: bool = False
    """Whether all rows of a weight matrix are equal and not 0, so that its units compute the same."""

    @property
    def entries(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    @property
    def is_matrix(self) -> bool:
        """Whether it has two axes or more along which it varies: a class token of shape (1, 1, n) is a vector."""
        return sum(size > 1 for size in self.shape) > 1

    @property
    def fan_in(self) -> int:
        """Entries of a row: the inputs of a unit."""
        return max(1, math.prod(self.shape[1:]))


def take_sample(parameter: Tensor) -> Tensor:
    """Return a copy of some entries, the same at every call."""
    entries = statistics.plain(parameter.detach())
    most = min(MOST, max(FEWEST, entries.numel() // 16))
    sample = statistics.flat(entries) if entries.numel() <= 2 * most else statistics.sample_entries(entries, most)
    return sample.clone()


def collect_weights(
    model: nn.Module,
    parameters: Iterable[nn.Parameter],
    gradients: Mapping[int, GradientStatistics],
    before: Mapping[int, Tensor],
    optimizers: Iterable[Any],
    stepped: bool,
) -> Iterator[Weight]:
    """Describe every parameter after a pass and, if there was one, a step."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(clean_name(name))
    groups = [list(group["params"]) for optimizer in optimizers for group in optimizer.param_groups]
    held = {id(parameter) for group in groups for parameter in group}
    embeddings = {id(p) for m in model.modules() if "Embedding" in type(m).__name__ for p in m.parameters()}
    for parameter in parameters:
        gradient, earlier, now = gradients.get(id(parameter)), before.get(id(parameter)), take_sample(parameter)
        moved = _compare(earlier, now) if earlier is not None and earlier.shape == now.shape else None
        if moved is not None and not stepped and not moved[1]:
            moved = None
        first = earlier if moved is not None and earlier is not None else now
        size = statistics.norm(first) * math.sqrt(max(parameter.numel(), 1) / max(first.numel(), 1))
        root = math.sqrt(max(parameter.numel(), 1))
        yield Weight(
            tuple(names[id(parameter)]),
            tuple(parameter.shape),
            parameter.requires_grad,
            id(parameter) in held if groups else None,
            None if gradient is None else gradient.l2,
            None if gradient is None else gradient.mean_abs,
            size,
            None if moved is None or not size else moved[0] * root / size,
            0 if gradient is None else gradient.nonfinite,
            None if moved is None else moved[1],
            None if moved is None else moved[0],
            str(parameter.dtype).removeprefix("torch."),
            id(parameter) not in embeddings and _has_same_rows(names[id(parameter)][0], parameter),
        )


def _compare(before: Tensor, after: Tensor) -> tuple[float, float]:
    """Return the root mean square of the change and the share of entries that changed."""
    if before.numel() == 0:
        return 0.0, 0.0
    change = after.float() - before.float() if after.dtype != before.dtype else after - before
    share = int(torch.count_nonzero(change)) / change.numel()
    return statistics.norm(change) / math.sqrt(change.numel()), share


def _has_same_rows(name: str, parameter: Tensor) -> bool:
    if not name.endswith("weight") or parameter.dim() < 2 or len(parameter) < 2 or not parameter.is_floating_point():
        return False
    if hasattr(parameter, "to_local"):
        return False
    if float(parameter.detach()[0].reshape(-1)[0]) != float(parameter.detach()[1].reshape(-1)[0]):
        return False
    rows = parameter.detach().flatten(1)
    if rows.shape[1] < 2 or not bool((rows[0] == rows[1]).all()) or not bool(rows[0].any()):
        return False
    return bool((rows == rows[:1]).all())

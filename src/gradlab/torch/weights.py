"""Parameter tensors: their gradient, their size, how far a step moved them. Large ones are measured by a sample."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from gradlab.torch import statistics
from gradlab.torch.structure import ModelStructure

MOST = 4_096
"""Entries of a tensor that are sampled, in runs; of one with fewer than twice as many it is all."""


Samples = Mapping[int, Tensor]


class GradientStatistics(NamedTuple):
    """Statistics of one parameter's gradient, unscaled."""

    l2: float
    mean_abs: float
    nonfinite: int


@dataclass(frozen=True, slots=True)
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
    """Norm before the step, if there was one; of 8,192 entries or more an estimate from a sample."""
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
    """Return a copy of some entries, the same at every call; half precision as float32."""
    entries = statistics.flat(statistics.plain(parameter.detach()))
    sample = statistics.take_runs(entries, MOST)
    return sample.clone() if sample is entries and sample.dtype in statistics.EXACT else statistics.widened(sample)


def take_samples(structure: ModelStructure) -> Samples:
    """Return a sample of every parameter that has values, by id."""
    return {id(parameter): take_sample(parameter) for _, parameter in structure.parameters if is_loaded(parameter)}


def collect_weights(
    structure: ModelStructure,
    gradients: Mapping[int, GradientStatistics],
    before: Samples,
    after: Samples,
    held: Container[int] | None,
    stepped: bool,
) -> Iterator[Weight]:
    """Describe every parameter after a pass and, if there was one, a step; `held` are those of the optimizers."""
    loaded = [(names, parameter) for names, parameter in structure.parameters if id(parameter) in after]
    now = [after[id(parameter)] for _, parameter in loaded]
    earlier = [_same_kind(before.get(id(parameter)), last) for (_, parameter), last in zip(loaded, now, strict=True)]
    steps = compare_samples(earlier, now)
    sizes = statistics.norms_of([last if first is None else first for first, last in zip(earlier, now, strict=True)])
    for (names, parameter), sample, size, step in zip(loaded, now, sizes, steps, strict=True):
        gradient, root = gradients.get(id(parameter)), math.sqrt(max(parameter.numel(), 1))
        moved = None if step is None or not (stepped or step.moved) else step
        size *= root / math.sqrt(max(sample.numel(), 1))
        yield Weight(
            names,
            tuple(parameter.shape),
            parameter.requires_grad,
            None if held is None else id(parameter) in held,
            None if gradient is None else gradient.l2,
            None if gradient is None else gradient.mean_abs,
            size,
            None if moved is None or not size else moved.rms * root / size,
            0 if gradient is None else gradient.nonfinite,
            None if moved is None else moved.moved,
            None if moved is None else moved.rms,
            str(parameter.dtype).removeprefix("torch."),
            id(parameter) not in structure.embeddings and _has_same_rows(names[0], parameter),
        )


def measure_gradients(parameters: Sequence[Tensor], scale: float, most: int) -> list[GradientStatistics]:
    """Measure the gradients of parameters, unscaled: norms by all entries, mean sizes by at most about `most`."""
    vectors = [statistics.flat(statistics.plain(parameter.grad.detach())) for parameter in parameters]
    samples = [statistics.widened(statistics.take_runs(vector, most)) for vector in vectors]
    sums = statistics.read_numbers(torch._foreach_norm(samples, 1)) if samples else []
    found = []
    for parameter, vector, sample, total, l2 in zip(
        parameters, vectors, samples, sums, statistics.norms_of(vectors), strict=True
    ):
        mean = total / max(1, sample.numel()) * vector.numel() / max(1, parameter.numel())
        nonfinite = 0 if math.isfinite(l2) else statistics.count_nonfinite(vector)
        found.append(GradientStatistics(l2 / scale, mean / scale, nonfinite))
    return found


def is_loaded(parameter: Tensor) -> bool:
    """Whether a parameter has values: that of a lazy module has none before its first pass, one on `meta` never."""
    return not is_lazy(parameter) and parameter.device.type != "meta"


class Step(NamedTuple):
    """How far a step has moved a sample."""

    rms: float
    """Root mean square of the change."""
    moved: float
    """Share of the entries that changed."""


def compare_samples(before: Sequence[Tensor | None], after: Sequence[Tensor]) -> list[Step | None]:
    """Compare samples with earlier ones, all in a few calls; None where there is no earlier one."""
    pairs = [(first, last) for first, last in zip(before, after, strict=True) if first is not None]
    if not pairs:
        return [None] * len(after)
    changes = torch._foreach_sub([last for _, last in pairs], [first for first, _ in pairs])
    counts = statistics.read_numbers(torch._foreach_norm(changes, 0))
    found = iter(
        Step(size / math.sqrt(max(1, change.numel())), count / max(1, change.numel()))
        for change, size, count in zip(changes, statistics.norms_of(changes), counts, strict=True)
    )
    return [None if first is None else next(found) for first in before]


def _same_kind(before: Tensor | None, after: Tensor) -> Tensor | None:
    """Return an earlier sample if it can be compared: the tensor may have been resized, moved or converted since."""
    if before is None or before.shape != after.shape:
        return None
    return before.to(after)


def _has_same_rows(name: str, parameter: Tensor) -> bool:
    if not name.endswith("weight") or parameter.dim() < 2 or len(parameter) < 2 or not parameter.is_floating_point():
        return False
    if hasattr(parameter, "to_local"):
        return False
    rows = parameter.detach().flatten(1)
    first, second = rows[:2, 0].tolist()
    if first != second or rows.shape[1] < 2 or not bool((rows[0] == rows[1]).all()) or not bool(rows[0].any()):
        return False
    return all(bool((few == rows[:1]).all()) for few in rows.split(max(1, statistics.CHUNK // rows.shape[1])))

"""Statistics of tensors: an activation, its gradient, a parameter with its gradient and its step.

Every number is made from at most `most` entries of a tensor, in its own precision, in a handful of reductions without
a copy of the whole. Sizes that float32 cannot square (below 1e-15, above 1e15) are measured again in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

if TYPE_CHECKING:
    from gradlab.torch.structure import ModelStructure

NEAR = 0.97
"""An output in a bounded range is saturated beyond this share of the range."""
CENTERED = ("tanh", "hardtanh", "softsign")
"""Kinds whose range is −1 to 1, also where no output is below 0."""
CHUNK = 2**17
"""Entries that one reduction takes at a time: float32 sums of more lose digits, and half precision is widened."""
RUN = 16
"""Neighboring entries that are sampled together from parameters and their gradients: a line of a processor's cache."""
FEW_SAMPLES, FEW_TOKENS, FEW_FEATURES = 16, 32, 256
"""The most samples, tokens and features that are compared for their similarity."""
SMALLEST, LARGEST = 1e-15, 1e15
EXACT = (torch.float32, torch.float64)
"""Precisions that are measured as they are."""


@dataclass(slots=True)
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


# ---------------------------------------------------------------------- what is recorded


def take_activation(seen: ModuleStatistics, tensor: Tensor, most: int) -> tuple[Tensor, Tensor | None]:
    """Return an activation as it is in memory, and a copy of at most about `most` of its finite entries.

    Whether all are finite is asked of every entry. The copy is None where there is no finite entry.
    """
    dense = plain(tensor.detach())
    entries = flat(dense)
    seen.shape = tuple(dense.shape)
    if not entries.numel():
        return dense, None
    total = float(entries.sum(dtype=sum_dtype(entries)))  # read in order first: the sample is then near at hand
    values = _copy(entries, most)
    if not math.isfinite(total):
        seen.nonfinite += count_nonfinite(entries)
        values = values[torch.isfinite(values)]
    return dense, values if values.numel() else None


def measure_gradient(seen: ModuleStatistics, entries: Tensor) -> float | None:
    """Return the root mean square of the gradient of a module's output, by its finite entries; None without any."""
    size = norm_of(entries)
    if not math.isfinite(size) and (bad := count_nonfinite(entries)):
        seen.delta_nonfinite += bad
        entries = entries[torch.isfinite(entries)]
        size = norm_of(entries)
    return size / math.sqrt(entries.numel()) if entries.numel() else None


def measure_saturation(values: Tensor, low: float, high: float, kind: str = "") -> float:
    """Return the share of entries near the ends of a bounded range: −1 and 1, or 0 and 1."""
    if low < -1 or high > 1:
        return 0.0
    centered = low < 0 or kind.lower().rstrip("_") in CENTERED
    ends = values.abs() > NEAR if centered else (values > NEAR) | (values < 1 - NEAR)
    return int(torch.count_nonzero(ends)) / values.numel()


def choose_samples(tensor: Tensor) -> Tensor | None:
    """Return a copy of a few samples, of shape (samples, tokens, features) or (samples, features); None of one."""
    if tensor.dim() < 2 or tensor.shape[0] < 2 or not tensor.numel():
        return None
    few = tensor[:FEW_SAMPLES]
    if tensor.dim() == 3:
        few = few[:, :: max(1, few.shape[1] // FEW_TOKENS), :: max(1, few.shape[2] // FEW_FEATURES)]
    else:
        few = few.reshape(len(few), -1)
        few = few[:, :: max(1, few.shape[1] // (4 * FEW_FEATURES))]
    return few.to(torch.float32, copy=True, memory_format=torch.contiguous_format)


def unit_axis(module: nn.Module | None, tensor: Tensor, known: dict[tuple[int, ...], int]) -> int:
    """Return the axis of the units.

    It is the channel axis for convolutions and their norms, and the last axis for matrices. Other modules and functions
    (None) keep the axis last used for the same shape.
    """
    shape, last = tuple(tensor.shape), tensor.dim() - 1
    parameters = () if module is None else module._parameters.values()
    dims = {parameter.dim() for parameter in parameters if parameter is not None}
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
    if math.isfinite(float(tensor.sum(dtype=sum_dtype(tensor)))):
        return 0
    return sum(chunk.numel() - int(torch.isfinite(chunk).sum()) for chunk in flat(tensor).split(CHUNK))


def norm(tensor: Tensor) -> float:
    """‖·‖₂ of any tensor."""
    return norm_of(flat(plain(tensor.detach())))


def norm_of(values: Tensor) -> float:
    """‖·‖₂ of a vector, in float32 by chunks; once more in float64 where float32 cannot square its entries."""
    if values.numel() <= CHUNK:
        size = float(torch.linalg.vector_norm(values, dtype=sum_dtype(values)))
    else:
        whole = values.numel() // CHUNK * CHUNK
        parts = torch.linalg.vector_norm(values[:whole].view(-1, CHUNK), dim=1, dtype=sum_dtype(values)).tolist()
        rest = values[whole:]
        size = math.hypot(*parts, float(torch.linalg.vector_norm(rest, dtype=sum_dtype(values))))
    return size if SMALLEST < size < LARGEST or not values.numel() else _wide_norm(values)


def _wide_norm(values: Tensor) -> float:
    wide = widest_dtype(values)
    return math.hypot(*(float(torch.linalg.vector_norm(chunk, dtype=wide)) for chunk in values.split(CHUNK)))


def norms_of(vectors: Sequence[Tensor]) -> list[float]:
    """Return ‖·‖₂ of many vectors in few calls."""
    short = [values for values in vectors if values.numel() <= CHUNK and values.dtype in EXACT]
    sizes = iter(read_numbers(torch._foreach_norm(short)) if short else ())
    known = {id(values): next(sizes) for values in short}
    measured = [known.get(id(values), 0.0) for values in vectors]
    return [
        size if SMALLEST < size < LARGEST else norm_of(values) for values, size in zip(vectors, measured, strict=True)
    ]


def read_numbers(scalars: Sequence[Tensor]) -> list[float]:
    """Read scalars at once where they are of one kind: a GPU is then waited for once."""
    kinds = {(scalar.device, scalar.dtype) for scalar in scalars}
    return torch.stack(list(scalars)).tolist() if len(kinds) == 1 else [float(scalar) for scalar in scalars]


def sample_entries(tensor: Tensor, most: int) -> Tensor:
    """Return all entries, or a copy of every k-th; k is such that no unit is missed or favored."""
    return _take(flat(plain(tensor.detach())), most)


def _take(entries: Tensor, most: int) -> Tensor:
    count = entries.numel()
    taken = entries if count < 2 * most else entries[:: stride_of(count, most)]
    return widened(taken)


def widened(values: Tensor) -> Tensor:
    """Return half precision as float32."""
    return values if values.dtype in EXACT else values.float()


def _copy(entries: Tensor, most: int) -> Tensor:
    taken = _take(entries, most)
    return taken.contiguous() if taken.stride(0) > 1 else taken.clone() if taken.dtype == entries.dtype else taken


def take_runs(entries: Tensor, most: int) -> Tensor:
    """Return all entries of a vector, or runs of RUN at equal distances: few places of a memory that is far away."""
    count = entries.numel()
    if count < 2 * most:
        return entries
    runs = count // RUN
    return entries[: runs * RUN].view(runs, RUN)[:: stride_of(runs, most // RUN)].reshape(-1)


@cache
def stride_of(count: int, most: int) -> int:
    """Return the distance between sampled entries: coprime to their number, and so to the size of every axis."""
    step = max(1, count // most)
    while step > 1 and math.gcd(step, count) != 1:
        step += 1
    return step


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


def sum_dtype(tensor: Tensor) -> torch.dtype:
    """Return the precision in which entries are added up."""
    return tensor.dtype if tensor.dtype in EXACT else torch.float32


def measure_dead(tensor: Tensor, axis: int) -> float:
    """Return the share of units that are exactly 0 everywhere; a few samples are enough where no unit is."""
    if tensor.dim() < 2 or not tensor.numel():
        return 0.0
    others = tuple(index for index in range(tensor.dim()) if index != axis)
    if tensor.shape[0] > 1 and axis > 0:
        few = tensor[: 1 + tensor.shape[0] // 8]
        if float(few.abs().amax(dim=others).amin()) > 0:
            return 0.0
    dead = (tensor.amin(dim=others) == 0) & (tensor.amax(dim=others) == 0)
    return float(dead.float().mean())


# Samples that wait to be measured: many of them are measured by a few calls, which one by one would take hundreds.
#
# A hook copies the sample and goes on. Samples of one size are rows of a matrix when their turn comes.

MOST_WAITING, MOST_ENTRIES = 256, 2**19
"""Samples, and entries of all of them, beyond which they are measured at once: 2 MB in float32."""


class Summary(NamedTuple):
    """Numbers of one sample."""

    mean: float
    std: float
    rms: float
    low: float
    high: float
    zeros: float
    """Share of exact zeros."""


class Pending:
    """Samples with what is to be done with their numbers, in the order in which they came."""

    def __init__(self, measure: Callable[[Sequence[Tensor]], Sequence[object]]) -> None:
        self._measure = measure
        self._waiting: list[tuple[Tensor, Callable[..., None]]] = []
        self._entries = 0

    def add(self, sample: Tensor, then: Callable[..., None]) -> None:
        """Measure a sample later, and call `then` with the result."""
        self._waiting.append((sample, then))
        self._entries += sample.numel()
        if len(self._waiting) > MOST_WAITING or self._entries > MOST_ENTRIES:
            self.flush()

    def flush(self) -> None:
        """Measure all that is waiting."""
        if self._waiting:
            waiting, self._waiting, self._entries = self._waiting, [], 0
            with torch.no_grad():
                results = self._measure([sample for sample, _ in waiting])
            for (_, then), result in zip(waiting, results, strict=True):
                then(result)


def measure_spreads(samples: Sequence[Tensor]) -> list[tuple[float | None, float | None]]:
    """Return which share of the energy differs between samples and, of three axes, between the tokens of a sample.

    With x̄ the mean it is Σ‖x − x̄‖² / Σ‖x‖²: 1 for unrelated samples, 0 if all look the same, None if all are 0.
    """
    shares: dict[int, tuple[float | None, float | None]] = {}
    for places in _group([(sample.shape, sample.device) for sample in samples]):
        stacked = torch.stack([samples[place] for place in places])
        whole = _size_each(stacked)
        apart = _size_each(stacked - stacked.mean(1, keepdim=True))
        tokens = _size_each(stacked - stacked.mean(2, keepdim=True)) if stacked.dim() == 4 else whole
        has_tokens = stacked.dim() == 4 and stacked.shape[2] > 1
        for place, size, first, second in zip(places, whole, apart, tokens, strict=True):
            if size and math.isfinite(size):
                shares[place] = (first / size) ** 2, (second / size) ** 2 if has_tokens else None
            else:
                shares[place] = None, None
    return [shares[place] for place in range(len(samples))]


def _size_each(stacked: Tensor) -> list[float]:
    rows = stacked.flatten(1)
    sizes: list[float] = torch.linalg.vector_norm(rows, dim=1).tolist()
    return [size if SMALLEST < size < LARGEST else norm_of(row) for size, row in zip(sizes, rows, strict=True)]


def _group(kinds: Sequence[Hashable]) -> Iterable[list[int]]:
    """Return the places of what is of one kind, kind by kind."""
    groups: dict[Hashable, list[int]] = {}
    for place, kind in enumerate(kinds):
        groups.setdefault(kind, []).append(place)
    return groups.values()


def summarize(samples: Sequence[Tensor]) -> list[Summary]:
    """Summarize samples of finite entries."""
    summaries: dict[int, Summary] = {}
    for places in _group([(sample.numel(), sample.dtype, sample.device) for sample in samples]):
        rows = torch.stack([samples[place] for place in places])
        summaries.update(zip(places, _summarize_rows(rows), strict=True))
    return [summaries[place] for place in range(len(samples))]


def _summarize_rows(rows: Tensor) -> Iterator[Summary]:
    """Summarize the rows of a matrix."""
    low, high = rows.amin(1).tolist(), rows.amax(1).tolist()  # faster than both at once
    sums, norms = rows.sum(1).tolist(), torch.linalg.vector_norm(rows, dim=1).tolist()
    count = rows.shape[1]
    zeros = (rows == 0).sum(1).tolist()
    for place, (least, most) in enumerate(zip(low, high, strict=True)):
        total, size = sums[place], norms[place]
        if max(-least, most) > LARGEST or 0 < max(-least, most) < SMALLEST:  # float32 cannot square them
            wide = rows[place].to(widest_dtype(rows))
            total, size = float(wide.sum()), float(torch.linalg.vector_norm(wide))
        mean, rms = total / count, size / math.sqrt(count)
        if 2 * mean**2 < rms**2:
            std = math.sqrt(rms**2 - mean**2)
        else:  # the difference of two numbers that are almost equal loses digits
            wide = rows[place].to(widest_dtype(rows))
            std = float(torch.linalg.vector_norm(wide - mean)) / math.sqrt(count)
        yield Summary(mean, std, rms, least, most, zeros[place] / count)


# Parameter tensors: their gradient, their size, how far a step moved them. Large ones are measured by a sample.

SAMPLED = 4_096
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
    entries = flat(plain(parameter.detach()))
    sample = take_runs(entries, SAMPLED)
    return sample.clone() if sample is entries and sample.dtype in EXACT else widened(sample)


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
    sizes = norms_of([last if first is None else first for first, last in zip(earlier, now, strict=True)])
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
    vectors = [flat(plain(parameter.grad.detach())) for parameter in parameters]
    samples = [widened(take_runs(vector, most)) for vector in vectors]
    sums = read_numbers(torch._foreach_norm(samples, 1)) if samples else []
    measured = []
    for parameter, vector, sample, total, l2 in zip(parameters, vectors, samples, sums, norms_of(vectors), strict=True):
        mean = total / max(1, sample.numel()) * vector.numel() / max(1, parameter.numel())
        nonfinite = 0 if math.isfinite(l2) else count_nonfinite(vector)
        measured.append(GradientStatistics(l2 / scale, mean / scale, nonfinite))
    return measured


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
    counts = read_numbers(torch._foreach_norm(changes, 0))
    steps = iter(
        Step(size / math.sqrt(max(1, change.numel())), count / max(1, change.numel()))
        for change, size, count in zip(changes, norms_of(changes), counts, strict=True)
    )
    return [None if first is None else next(steps) for first in before]


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
    return all(bool((few == rows[:1]).all()) for few in rows.split(max(1, CHUNK // rows.shape[1])))

"""The data of an arm: every sample and label where that is affordable, the sampler, the order of an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from gradlab.audits.compare import Comparison
from gradlab.audits.factories.guest import Kept
from gradlab.trials.seeding import seed_all
from gradlab.words import join

if TYPE_CHECKING:
    from gradlab.audits.factories.arms import ArmPair

ORDER = "order of samples"
DATA_TRAITS = ("samples", "data", "augmentation", "sampler", "batch size", "batches per epoch", ORDER)
SECONDS = 5.0
"""Reading samples stops after so long, per arm; how many were compared is then stated."""
MOST_ORDER = 1_000_000
"""Indices of an epoch that are compared."""
EPOCHS = 20
"""Epochs whose order is compared, as far as indices may be read: a sampler may change it later."""
MOST_BATCHES = 200
"""Batches that are compared where the samples cannot be read by number."""
TWICE = 8
"""Samples that are read twice at once, to see whether they are random, and again after all others."""


@dataclass(frozen=True)
class Samples:
    """What can be known of a loader without training."""

    size: int | None
    """Samples of the data set."""
    batches: int | None
    """Batches of an epoch."""
    batch: str
    sampler: str
    order: tuple[int, ...] | None
    """Indices of the first epochs, one after the other."""
    read: tuple[tuple[str, str], ...]
    """Hash of input and of label, sample by sample, in a fixed order of indices."""
    again: tuple[str, ...]
    """Hashes of the first samples, read once more at the end: augmentation may begin with the second epoch."""
    indices: tuple[int, ...]
    first: tuple[np.ndarray[Any, Any], ...]
    """A few inputs, to tell a scale from other data."""
    random: bool
    """Whether reading a sample twice gives two values."""

    @property
    def unit(self) -> str:
        """What was read."""
        return "batches" if self.size is None else "samples"

    @property
    def partly(self) -> bool:
        """Whether there is more than was read, as far as one knows."""
        whole = self.batches if self.size is None else self.size
        return whole is None or len(self.read) < whole


def read_samples(loader: Any, kept: Kept, seed: int) -> Samples:
    """Read the loader's data set, sample by sample, and its order; leaves the loader as it was."""
    dataset = getattr(loader, "dataset", None)
    order = _order(loader)
    kept.restore()
    seed_all(seed)
    size = _length(dataset)
    if dataset is not None and size is not None and hasattr(dataset, "__getitem__"):
        indices = [int(index) for index in np.random.default_rng(0).permutation(size)]
        source: Iterator[Any] = (dataset[index] for index in indices)
        random = _is_random(dataset, indices[:TWICE])
        kept.restore()
        seed_all(seed)
    else:
        whole = getattr(loader, "__len__", None) is not None
        source, indices, random = (islice(_epochs(loader), MOST_BATCHES) if whole else iter(())), [], False
    read: list[tuple[str, str]] = []
    first: list[np.ndarray[Any, Any]] = []
    end = monotonic() + SECONDS
    for sample in source:
        x, y = _split(sample)
        read.append((hash_of(x), hash_of(y)))
        if len(first) < TWICE and (values := array_of(x)) is not None:
            first.append(values)
        if monotonic() > end:
            break
    again = () if dataset is None else tuple(hash_of(dataset[index]) for index in indices[:TWICE])
    kept.restore()
    return Samples(
        size if dataset is not None else None,
        _length(loader),
        _batch(loader),
        _sampler(loader),
        order,
        tuple(read),
        again,
        tuple(indices[: len(read)]) if indices else tuple(range(len(read))),
        tuple(first),
        random,
    )


def _order(loader: Any) -> tuple[int, ...] | None:
    """The indices of the first epochs, drawn as iterations of the loader draw them."""
    batches, single = getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None)
    sampler = batches if batches is not None else single
    if sampler is None or not hasattr(sampler, "__iter__"):
        return None
    found: list[int] = []
    for epoch in range(EPOCHS):
        if callable(announce := getattr(single, "set_epoch", None)):
            announce(epoch)
        for batch in islice(iter(sampler), MOST_ORDER):
            for index in batch if isinstance(batch, list | tuple) else [batch]:
                if not isinstance(index, int | np.integer):
                    return None
                found.append(int(index))
            if len(found) >= MOST_ORDER:
                return tuple(found)
    return tuple(found)


def _epochs(loader: Any) -> Iterator[Any]:
    """The batches of the first epochs of a loader that has no data set to read by number."""
    for _ in range(EPOCHS):
        yield from loader


def _is_random(dataset: Any, indices: list[int]) -> bool:
    def once(seed: int) -> list[str]:
        seed_all(seed)
        return [hash_of(dataset[index]) for index in indices]

    return once(1) != once(2)


def _split(sample: Any) -> tuple[Any, Any]:
    """Input and label."""
    if isinstance(sample, list | tuple) and len(sample) >= 2:
        return sample[0], sample[1:]
    return sample, None


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except Exception:  # somebody's own __len__ may raise anything
        return None


def _batch(loader: Any) -> str:
    size = getattr(loader, "batch_size", None)
    sampler = getattr(loader, "batch_sampler", None)
    size = getattr(sampler, "batch_size", None) if size is None else size
    drop = getattr(loader, "drop_last", False) or getattr(sampler, "drop_last", False)
    return f"{size if size is not None else 'not stated'}{', last one dropped if smaller' if drop else ''}"


def _sampler(loader: Any) -> str:
    sampler = getattr(loader, "sampler", None)
    words = type(sampler).__name__ if sampler is not None else type(loader).__name__
    if getattr(sampler, "replacement", False):
        words += ", with replacement"
    weights = getattr(sampler, "weights", None)
    return words if weights is None else f"{words}, weights {hash_of(weights)[:8]}"


def array_of(value: Any) -> Any:
    """A tensor, an array or a number as an array, half precision as float32; None of anything else."""
    if isinstance(value, Tensor):
        plain = value.detach().cpu()
        return plain.float().numpy() if plain.is_floating_point() and plain.element_size() < 4 else plain.numpy()
    if isinstance(value, np.ndarray | np.generic | int | float):
        return np.asarray(value)
    return None


def hash_of(value: Any) -> str:
    """A hash of any nested value of tensors, arrays, numbers and strings."""
    digest = blake2b(digest_size=8)
    for part in _parts(value):
        digest.update(part)
    return digest.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    if (array := array_of(value)) is not None:
        if array.ndim:
            yield f"{array.shape}{array.dtype.str}".encode()
        yield np.ascontiguousarray(array).tobytes()
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield repr(key).encode()
            yield from _parts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _parts(each)
            yield b"|"
    elif hasattr(value, "tobytes"):  # an image
        yield value.tobytes()
    else:
        bare = getattr(type(value), "__repr__", None) is object.__repr__
        yield (type(value).__name__ if bare else repr(value)).encode()


def compare_samples(pair: ArmPair) -> Iterator[Comparison]:
    """Everything about the data of two arms."""
    random = {True: "random each time they are read", False: "fixed"}
    yield pair.words("samples", lambda arm: _number(arm.samples.size), "data")
    yield _compare_content(pair)
    yield pair.words("augmentation", lambda arm: random[arm.samples.random], "data")
    yield pair.words("sampler", lambda arm: arm.samples.sampler, "order", "data")
    yield pair.words("batch size", lambda arm: arm.samples.batch, "batch")
    batches = pair.words("batches per epoch", lambda arm: _number(arm.samples.batches), "batch", "data")
    yield replace(batches, follows=("samples", "batch size"))
    yield _compare_order(pair)


def _number(count: int | None) -> str:
    return "not stated" if count is None else f"{count:,}"


def _compare_content(pair: ArmPair) -> Comparison:
    """Samples and labels at the same indices."""
    a, b = (arm.samples for arm in pair)
    both = min(len(a.read), len(b.read))
    of = f"all {both:,}" if not a.partly and not b.partly else f"{both:,}"
    cells = [f"{of} read, hash {hash_of([x + y for x, y in own.read[:both]])[:8]}" for own in (a, b)]
    values = [hash_of([*map(str, own.read[:both])]) for own in (a, b)]
    difference = None
    if a.indices[:both] == b.indices[:both]:
        inputs, labels = (sum(a.read[i][part] != b.read[i][part] for i in range(both)) for part in (0, 1))
        if inputs and set(a.read[:both]) == set(b.read[:both]):
            difference = f"the same samples in another order in {pair.b.name}"
        elif inputs or labels:
            parts = [f"inputs differ in {inputs:,}{_affine(a, b)}"] if inputs else []
            parts += [f"labels differ in {labels:,}"] if labels else []
            difference = f"{join(parts)} of {both:,} {a.unit}"
            if pair.moved:
                difference += " (building draws different numbers of random numbers; data from their own generator"
                difference += " would not depend on it)"
        elif not a.partly and not b.partly and a.again != b.again:
            difference = "the first samples differ when they are read again after all others"
    factors, follows = frozenset({"data"}), ("samples",)
    return Comparison("data", (cells[0], cells[1]), difference, factors, follows, (values[0], values[1]))


def _affine(a: Samples, b: Samples) -> str:
    """How one arm's inputs follow from the other's, where that is a scale and a shift."""
    pairs = [(x, y) for x, y in zip(a.first, b.first, strict=False) if x.shape == y.shape]
    if not pairs or any(x.dtype.kind not in "fiu" or y.dtype.kind not in "fiu" for x, y in pairs):
        return ""
    x = np.concatenate([each.ravel() for each, _ in pairs]).astype(np.float64)
    y = np.concatenate([each.ravel() for _, each in pairs]).astype(np.float64)
    if x.size < 4 or not np.isfinite(x).all() or not np.isfinite(y).all() or np.ptp(x) == 0:
        return ""
    scale, shift = np.polyfit(x, y, 1)
    if not np.allclose(scale * x + shift, y, atol=1e-5 * max(float(np.abs(y).max()), 1e-30)):
        return ""
    return f" (× {scale:.4g}{f' {shift:+.4g}' if abs(shift) > 1e-6 * max(abs(scale), 1) else ''})"


def _compare_order(pair: ArmPair) -> Comparison:
    a, b = (arm.samples for arm in pair)
    values = [hash_of(list(own.order or ())) for own in (a, b)]
    cells = [
        "not stated" if own.order is None else f"{len(own.order):,} indices, hash {value[:8]}"
        for own, value in zip((a, b), values, strict=True)
    ]
    difference = None
    if a.order is not None and b.order is not None:
        first = next((at for at, (x, y) in enumerate(zip(a.order, b.order, strict=False)) if x != y), None)
        if first is not None:
            later = a.size and first >= a.size and f", from epoch {first // a.size + 1} on"
            difference = f"the same data come in another order{later or ''}"
            if pair.moved:
                arms = join(pair.names)
                difference += f", because building {arms} draws different numbers of random numbers"
                difference += " (a loader with its own generator= would not depend on it)"
    factors, follows = frozenset({"order", "seed"}), ("sampler", "samples")
    return Comparison(ORDER, (cells[0], cells[1]), difference, factors, follows, (values[0], values[1]))

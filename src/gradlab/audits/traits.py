"""Traits: the properties in which two arms may agree or differ, compared as objects and described in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ROUNDING = 16
"""A tensor counts as a multiple of another if it fits within this many units in the last place."""
FEW = 0.5
"""If less than this share of the entries differs, the entries are counted; otherwise the draws are different."""


@dataclass(frozen=True)
class Trait:
    """One property of an arm as it will be trained."""

    name: str
    value: str
    """Equal values mean equal properties: a hash, or the property itself."""
    words: str
    """What people read."""
    tensors: Mapping[str, Array] = field(default_factory=dict, compare=False, repr=False)
    """The tensors behind the hash, by name; they show how two arms differ."""
    sequence: Array | None = field(default=None, compare=False, repr=False)
    """One entry per `unit`. Arms may have more or fewer; the entries that both have must be equal."""
    unit: str = "step"
    """What an entry of the sequence belongs to: a step or an epoch."""
    number: float | None = None
    """The property as a number, if it is one."""
    computed: bool = False
    """Whether it is something that the network computes, and so follows from the other traits."""

    def same(self, other: Trait) -> bool:
        """Whether two arms agree in it."""
        if self.sequence is not None and other.sequence is not None:
            both = min(len(self.sequence), len(other.sequence))
            return np.array_equal(self.sequence[:both], other.sequence[:both])
        if self.value == other.value:
            return True
        return bool(self.tensors) and not find_tensor_differences(self.tensors, other.tensors)


Realized = Mapping[str, Trait]
"""An arm at one seed: its traits by name."""


@dataclass(frozen=True)
class TensorDifference:
    """Two tensors of one name that are not the same."""

    name: str
    ratio: float | None
    """Second over first, if they differ by nothing but a factor."""
    largest: float
    """Largest difference between two entries."""
    entries: int
    """How many entries differ."""
    size: int


def fingerprint(array: Array) -> str:
    """Hash the shape, type and bits of an array."""
    digest = blake2b(f"{array.shape}{array.dtype.str}".encode(), digest_size=8)
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def hash_together(hashes: Sequence[str]) -> str:
    """Make one hash of several."""
    return blake2b("|".join(hashes).encode(), digest_size=8).hexdigest()


def find_tensor_differences(first: Mapping[str, Array], second: Mapping[str, Array]) -> list[TensorDifference]:
    """Find tensors of the same name and shape that are not bitwise equal in the coarser precision of the two."""
    found = []
    for name, a in first.items():
        b = second.get(name)
        if b is None or b.shape != a.shape:
            continue  # shapes are a trait of their own
        dtype = min(a.dtype, b.dtype, key=lambda kind: kind.itemsize)
        x, y = a.astype(dtype), b.astype(dtype)
        if not np.array_equal(x, y, equal_nan=True):
            gap = np.abs(x.astype(np.float64) - y.astype(np.float64))
            largest = float(np.nanmax(gap)) if gap.size else 0.0
            found.append(TensorDifference(name, _find_ratio(x, y), largest, int(np.count_nonzero(gap)), x.size))
    return found


def _find_ratio(x: Array, y: Array) -> float | None:
    """The one number that turns x into y, if there is one."""
    a, b = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
    power = float(a @ a)
    if power == 0 or not np.isfinite(power):
        return None
    ratio = float(a @ b) / power
    precision = float(np.finfo(x.dtype).eps) if np.issubdtype(x.dtype, np.inexact) else 0.0
    tolerance = ROUNDING * precision * float(np.abs(b).max(initial=0))
    return ratio if ratio != 0 and np.allclose(a * ratio, b, rtol=0, atol=tolerance) else None


def describe_difference(name: str, first: Trait, second: Trait, a: str, b: str) -> str:
    """Say in one line how two arms differ in a trait."""
    if first.tensors and second.tensors:
        apart = find_tensor_differences(first.tensors, second.tensors)
        if apart:
            return f"{name}: {_describe_tensors(apart, first, second, a, b)}"
    if first.sequence is not None and second.sequence is not None:
        place = _first_difference(first.sequence, second.sequence)
        if place is not None and (place > 0 or first.words == second.words):
            return f"{name}: {_describe_place(place, first, second, a, b)}"
    if first.words == second.words:
        return f"{name}: not the same in {a} and in {b} ({first.words} in each)"
    return f"{name}: {first.words} in {a}, {second.words} in {b}"


def _describe_tensors(apart: Sequence[TensorDifference], first: Trait, second: Trait, a: str, b: str) -> str:
    shared = [key for key in first.tensors if key in second.tensors]
    where = f"in all {len(apart)} layers" if len(apart) == len(shared) > 1 else _list([each.name for each in apart])
    zero = [not any(trait.tensors[each.name].any() for each in apart) for trait in (first, second)]
    if any(zero):
        empty, other = (a, b) if zero[0] else (b, a)
        return f"those of {empty} are 0, those of {other} are not, {where}"
    ratios = [each.ratio for each in apart if each.ratio is not None]
    if len(ratios) == len(apart) and max(ratios) - min(ratios) <= 1e-5 * abs(max(ratios)):
        return f"those of {b} are {ratios[0]:.4g} × those of {a}, {where}"
    if len(ratios) == len(apart):
        return f"those of {b} are {min(ratios):.4g} to {max(ratios):.4g} × those of {a}, {where}"
    entries, size = sum(each.entries for each in apart), sum(each.size for each in apart)
    if entries < FEW * size:
        largest = max(each.largest for each in apart)
        return f"{entries:,} of {size:,} entries differ by up to {largest:.3g} between {a} and {b}, {where}"
    return f"different draws in {a} and in {b}, {where}"


def _first_difference(first: Array, second: Array) -> int | None:
    both = min(len(first), len(second))
    places = np.flatnonzero(first[:both] != second[:both])
    return int(places[0]) if len(places) else None


def _describe_place(place: int, first: Trait, second: Trait, a: str, b: str) -> str:
    assert first.sequence is not None
    assert second.sequence is not None
    start = f"not the same in {a} and in {b} from {first.unit} {place + 1:,} on"
    if not np.issubdtype(first.sequence.dtype, np.number):
        return start
    return f"{start} ({first.sequence[place]:.6g} and {second.sequence[place]:.6g})"


def _list(names: Sequence[str]) -> str:
    return "in " + ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")

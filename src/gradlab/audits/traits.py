"""What two arms may have in common, one trait at a time: compared as objects, told in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ROUNDING = 16
"""Tensors apart by so many units in the last place have one scale; a factor has to fit this well."""


@dataclass(frozen=True)
class Trait:
    """One property of an arm as it will be trained."""

    name: str
    value: str
    """Equal values, equal property: a hash, or the property itself."""
    words: str
    """What people read."""
    tensors: Mapping[str, Array] = field(default_factory=dict, compare=False, repr=False)
    """The tensors behind the hash, if there are any, by name: they tell how two arms differ."""
    sequence: Array | None = field(default=None, compare=False, repr=False)
    """One entry per step or epoch, of which arms may have more or fewer: what both have has to be equal."""

    def same(self, other: Trait) -> bool:
        """Whether two arms agree in it."""
        if self.sequence is not None and other.sequence is not None:
            both = min(len(self.sequence), len(other.sequence))
            return np.array_equal(self.sequence[:both], other.sequence[:both])
        if self.value == other.value:
            return True
        return bool(self.tensors) and not tensor_differences(self.tensors, other.tensors)


Realized = Mapping[str, Trait]
"""An arm at a seed: its traits by name."""


@dataclass(frozen=True)
class TensorDifference:
    """Two tensors of one name that are not the same."""

    name: str
    ratio: float | None
    """Second over first, where they differ by nothing but a factor."""
    largest: float
    """Largest difference of two entries."""


def fingerprint(array: Array) -> str:
    """A short hash of shape, type and bits."""
    digest = blake2b(f"{array.shape}{array.dtype.str}".encode(), digest_size=8)
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def joined(hashes: Sequence[str]) -> str:
    """One hash of several."""
    return blake2b("|".join(hashes).encode(), digest_size=8).hexdigest()


def tensor_differences(first: Mapping[str, Array], second: Mapping[str, Array]) -> list[TensorDifference]:
    """Tensors that both have, of the same shape, and that are not bitwise equal in the coarser precision."""
    found = []
    for name, a in first.items():
        b = second.get(name)
        if b is None or b.shape != a.shape:
            continue  # shapes are a trait of their own
        dtype = min(a.dtype, b.dtype, key=lambda kind: kind.itemsize)
        x, y = a.astype(dtype), b.astype(dtype)
        if not np.array_equal(x, y, equal_nan=True):
            gap = np.abs(x.astype(np.float64) - y.astype(np.float64))
            found.append(TensorDifference(name, _ratio(x, y), float(np.nanmax(gap)) if gap.size else 0.0))
    return found


def _ratio(x: Array, y: Array) -> float | None:
    """The one number that turns x into y, if there is one."""
    a, b = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
    power = float(a @ a)
    if power == 0 or not np.isfinite(power):
        return None
    ratio = float(a @ b) / power
    tolerance = ROUNDING * float(np.finfo(x.dtype).eps) * float(np.abs(b).max(initial=0))
    return ratio if ratio != 0 and np.allclose(a * ratio, b, rtol=0, atol=tolerance) else None


def difference_words(name: str, first: Trait, second: Trait, a: str, b: str) -> str:
    """How two arms differ in a trait, in one line."""
    if not (first.tensors and second.tensors):
        return f"{name}: {first.words} in {a}, {second.words} in {b}"
    apart = tensor_differences(first.tensors, second.tensors)
    shared = [key for key in first.tensors if key in second.tensors]
    if not apart:
        return f"{name}: {first.words} in {a}, {second.words} in {b}"
    ratios = [each.ratio for each in apart if each.ratio is not None]
    where = f"in all {len(apart)} layers" if len(apart) == len(shared) > 1 else _listed([each.name for each in apart])
    if len(ratios) == len(apart) and max(ratios) - min(ratios) <= 1e-5 * abs(max(ratios)):
        return f"{name}: those of {b} are {ratios[0]:.4g} × those of {a}, {where}"
    if len(ratios) == len(apart):
        return f"{name}: those of {b} are {min(ratios):.4g} to {max(ratios):.4g} × those of {a}, {where}"
    return f"{name}: other draws in {a} and {b}, {where}"


def _listed(names: Sequence[str]) -> str:
    return "in " + ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")

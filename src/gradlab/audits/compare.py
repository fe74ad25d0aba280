"""The one comparison of both audits: a trait of two arms is the same, or differs in words that say how.

A trait is what one arm has: a value with words, and behind them a list, tensors or a sequence where there are any. The
audit of studies reads traits from configurations as they are realized, the audit of factories from what functions
build.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.words import listed, written

Array = NDArray[Any]
ROUNDING = 16
"""A tensor counts as a multiple of another if it fits within this many units in the last place."""
FEW = 0.5
"""If less than this share of the entries differs, the entries are counted; otherwise the draws are different."""


class Status(Enum):
    """How the arms compare in one trait, in the order of the table."""

    UNDECLARED = "undeclared"
    FOLLOWS = "follows"
    BY_FACTOR = "by_factor"
    TUNED = "tuned"
    SAME = "same"

    @property
    def text(self) -> str:
        """The words shown in tables."""
        return _TEXTS[self]


SAME, BY_FACTOR, UNDECLARED, FOLLOWS = Status.SAME, Status.BY_FACTOR, Status.UNDECLARED, Status.FOLLOWS
TUNED = Status.TUNED
_TEXTS = {
    SAME: "same",
    BY_FACTOR: "differs by the factor",
    UNDECLARED: "DIFFERS, undeclared",
    FOLLOWS: "differs as a result",
    TUNED: "differs by the tuning",
}


@dataclass(frozen=True)
class Row:
    """One trait of every arm, side by side."""

    trait: str
    cells: tuple[str, ...]
    status: Status


def make_table(cells: Mapping[str, Iterable[str]], statuses: Mapping[str, Status]) -> tuple[Row, ...]:
    """One row per trait, undeclared differences first."""
    order = list(Status)
    rows = [Row(name, tuple(own), statuses[name]) for name, own in cells.items()]
    return tuple(sorted(rows, key=lambda row: order.index(row.status)))


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
    items: tuple[str, ...] | None = None
    """The property as a list: all of it counts, a difference tells what only one arm has."""
    sequence: Array | None = field(default=None, compare=False, repr=False)
    """One entry per `unit`. Arms may have more or fewer; the entries that both have must be equal."""
    unit: str = "step"
    """What an entry of the sequence belongs to: a step or an epoch."""
    number: float | None = None
    """The property as a number, if it is one."""
    computed: bool = False
    """Whether it is something that the network computes, and so follows from the other traits."""

    @staticmethod
    def of_words(name: str, words: str) -> Trait:
        """A property that is its own words."""
        return Trait(name, words, words)

    @staticmethod
    def of_items(name: str, items: Iterable[str]) -> Trait:
        """A property that is a list."""
        every = tuple(items)
        return Trait(name, repr(list(every)), tally(every), items=every)

    @staticmethod
    def of_tensors(name: str, tensors: Mapping[str, Array]) -> Trait:
        """A property that is some tensors."""
        flat = np.concatenate([values.ravel() for values in tensors.values()]).astype(np.float64)
        words = "all 0" if not flat.any() else f"root mean square {written(float(np.sqrt(np.mean(flat**2))), 4)}"
        return Trait(name, hash_together([fingerprint(values) for values in tensors.values()]), words, tensors)


Realized = Mapping[str, Trait]
"""An arm at one seed: its traits by name."""


@dataclass(frozen=True)
class Comparison:
    """One trait of a pair of arms, with what would explain a difference."""

    trait: str
    cells: tuple[str, str]
    """What people read of the first and of the second arm."""
    difference: str | None = None
    """The difference as a sentence without the trait's name; None if there is none."""
    factors: frozenset[str] = frozenset()
    """Declared factors that explain the difference, any of them."""
    follows: tuple[str, ...] = ()
    """Traits that explain it, if one of them differs: the sentence is then theirs."""
    values: tuple[str, str] | None = None
    """Hashes or values for machines; the cells, if not given."""
    computed: bool = False
    """Whether networks compute it."""

    @property
    def differs(self) -> bool:
        """Whether the arms differ in it."""
        return self.difference is not None

    @property
    def sentence(self) -> str:
        """Trait and difference."""
        return f"{self.trait}: {self.difference}"


def compare(
    a: Trait, b: Trait, names: tuple[str, str], factors: Iterable[str] = (), follows: tuple[str, ...] = ()
) -> Comparison:
    """Compare two arms in one trait."""
    difference = None if a.value == b.value else _describe(a, b, names)
    values, computed = (a.value, b.value), a.computed and b.computed
    return Comparison(a.name, (a.words, b.words), difference, frozenset(factors), follows, values, computed)


def find_differences(a: Realized, b: Realized, names: tuple[str, str]) -> dict[str, Comparison]:
    """Every trait in which two arms differ, also if only one of them has it."""
    found = {}
    for name in {**a, **b}:
        x, y = a.get(name), b.get(name)
        if x is not None and y is not None:
            compared = compare(x, y, names)
        else:
            only, computed = names[x is None], (x or y or b[name]).computed
            compared = Comparison(name, ("–", "–"), f"only {only} has them", computed=computed)
        if compared.differs:
            found[name] = compared
    return found


def in_each(x: object, y: object, names: tuple[str, str]) -> str:
    """`3 in plain, 5 in residual`."""
    return f"{x} in {names[0]}, {y} in {names[1]}"


def tally(items: Iterable[str]) -> str:
    """`3 × Dropout(0.1)`, kind by kind."""
    return listed((f"{count} × {kind}" if count > 1 else kind for kind, count in Counter(items).items()), none="none")


def say_only(only: Iterable[Sequence[str]], names: tuple[str, str]) -> list[str]:
    """`only a has x, y` for each arm that has something alone."""
    return [f"only {name} has {listed(own)}" for name, own in zip(names, only, strict=True) if own]


def _describe(a: Trait, b: Trait, names: tuple[str, str]) -> str | None:
    """How two traits of unequal values differ; None if they do not, in what counts."""
    if a.items is not None and b.items is not None:
        return _describe_items(a.items, b.items, names)
    if a.tensors and b.tensors:
        apart = find_tensor_differences(a.tensors, b.tensors)
        return _describe_tensors(apart, a, b, names) if apart else None
    if a.sequence is not None and b.sequence is not None:
        both = min(len(a.sequence), len(b.sequence))
        places = np.flatnonzero(a.sequence[:both] != b.sequence[:both])
        if not len(places):
            return None
        if places[0] > 0 or a.words == b.words:
            return _describe_place(int(places[0]), a, b, names)
    if a.words == b.words:
        return f"not the same in {names[0]} and in {names[1]} ({a.words} in each)"
    return in_each(a.words, b.words, names)


def _describe_items(a: Sequence[str], b: Sequence[str], names: tuple[str, str]) -> str:
    only = [Counter(a) - Counter(b), Counter(b) - Counter(a)]
    words = [tally(own.elements()) for own in only]
    if all(only) and sum(map(len, only)) == 2:
        return in_each(words[0], words[1], names)
    parts = [f"only {name} has {said}" for name, own, said in zip(names, only, words, strict=True) if own]
    return "; ".join(parts) or "the same in another order"


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


def _describe_tensors(apart: Sequence[TensorDifference], first: Trait, second: Trait, names: tuple[str, str]) -> str:
    a, b = names
    shared = [key for key in first.tensors if key in second.tensors]
    all_of_them = len(apart) == len(shared) > 1
    where = f"in all {len(apart)} layers" if all_of_them else f"in {listed(each.name for each in apart)}"
    zero = [not any(trait.tensors[each.name].any() for each in apart) for trait in (first, second)]
    if any(zero):
        empty, other = (a, b) if zero[0] else (b, a)
        return f"those of {empty} are 0, those of {other} are not, {where}"
    ratios = [each.ratio for each in apart if each.ratio is not None]
    if len(ratios) == len(apart) and max(ratios) - min(ratios) <= 1e-5 * abs(max(ratios)):
        return f"those of {b} are {written(ratios[0], 4)} × those of {a}, {where}"
    if len(ratios) == len(apart):
        return f"those of {b} are {written(min(ratios), 4)} to {written(max(ratios), 4)} × those of {a}, {where}"
    entries, size = sum(each.entries for each in apart), sum(each.size for each in apart)
    if entries < FEW * size:
        largest = max(each.largest for each in apart)
        return f"{entries:,} of {size:,} entries differ by up to {written(largest)} between {a} and {b}, {where}"
    return f"different draws in {a} and in {b}, {where}"


def _describe_place(place: int, first: Trait, second: Trait, names: tuple[str, str]) -> str:
    assert first.sequence is not None
    assert second.sequence is not None
    start = f"not the same in {names[0]} and in {names[1]} from {first.unit} {place + 1:,} on"
    if not np.issubdtype(first.sequence.dtype, np.number):
        return start
    return f"{start} ({first.sequence[place]:.6g} and {second.sequence[place]:.6g})"

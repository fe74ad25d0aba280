"""One thing that two arms have in common, or in which they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SHOWN = 4
"""Names in a list before it says how many more there are."""


@dataclass(frozen=True)
class Point:
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

    @property
    def differs(self) -> bool:
        """Whether the arms differ in it."""
        return self.difference is not None

    @property
    def sentence(self) -> str:
        """Trait and difference."""
        return f"{self.trait}: {self.difference}"


def plain(trait: str, a: str, b: str, names: tuple[str, str], *factors: str, note: str = "") -> Point:
    """A trait that is its own words: other words, another trait."""
    difference = None if a == b else f"{a} in {names[0]}, {b} in {names[1]}{note}"
    return Point(trait, (a, b), difference, frozenset(factors))


def listed(names: Iterable[str], none: str = "none", most: int = SHOWN) -> str:
    """The first few names and how many more there are."""
    every = list(names)
    if not every:
        return none
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def counted(items: Iterable[str]) -> str:
    """`3 × Dropout(0.1)`, kind by kind."""
    return listed(f"{count} × {kind}" if count > 1 else kind for kind, count in Counter(items).items())


def lists(trait: str, a: Sequence[str], b: Sequence[str], names: tuple[str, str], *factors: str) -> Point:
    """A trait that is a list: all of it counts, the difference tells what only one arm has."""
    only = [Counter(a) - Counter(b), Counter(b) - Counter(a)]
    parts = [f"only {name} has {counted(own.elements())}" for name, own in zip(names, only, strict=True) if own]
    if all(only) and sum(map(len, only)) == 2:
        (ours, theirs) = (counted(own.elements()) for own in only)
        parts = [f"{ours} in {names[0]}, {theirs} in {names[1]}"]
    difference = "; ".join(parts) or ("the same in another order" if list(a) != list(b) else None)
    return Point(trait, (counted(a), counted(b)), difference, frozenset(factors), values=(repr(a), repr(b)))

"""Hand out trials in bundles of about equal time, by the times measured so far.

The time of a trial is only estimated beforehand, and estimates are off by several times. A bundle that is too short
makes the engine of a cluster the bottleneck, one that is too long keeps the others waiting at the end. So bundles are
cut when they are needed: the first ones as planned, later ones by the measured seconds of each group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

SHARES = 4
"""Minimum number of bundles per worker that are left, so that the last ones end at about the same time."""
MOST_GROWTH = 8
"""How many times longer than the last one a bundle may be, in trials: one odd measurement decides little."""

SECONDS_PER_CORE = 4e-3
"""A cluster of many cores gets longer bundles, so that the coordinator, which is one process, is asked less often."""
LEAST_SECONDS = 0.2
"""Minimum work in a bundle, also in the last ones: a shorter one costs more than an even end saves."""
ROUNDING = 1e-9

T = TypeVar("T")


def bundle_seconds(least: float, cores: int) -> float:
    """Return the seconds of work in a bundle, for a cluster of so many cores."""
    return max(least, cores * SECONDS_PER_CORE)


class Packer(Generic[T]):
    """The trials that are not handed out yet."""

    def __init__(self, bundles: Sequence[Sequence[tuple[int, T]]], seconds: float) -> None:
        self._seconds = seconds
        self._left: deque[tuple[int, T]] = deque(item for bundle in bundles for item in bundle)
        self._again: deque[tuple[tuple[int, T], ...]] = deque()
        self._size = max((len(bundle) for bundle in bundles), default=1)
        self._measured: dict[int, tuple[float, int]] = {}
        self._total, self._count = 0.0, 0

    def __len__(self) -> int:
        return len(self._left) + sum(map(len, self._again))

    def learn(self, group: int, seconds: float) -> None:
        """Record the time of a finished trial of a group."""
        total, count = self._measured.get(group, (0.0, 0))
        self._measured[group] = total + seconds, count + 1
        self._total, self._count = self._total + seconds, self._count + 1

    def put_back(self, bundle: Iterable[tuple[int, T]], pieces: int = 1) -> None:
        """Hand these out again, before all others, in this many pieces."""
        items = tuple(bundle)
        size = -(-len(items) // pieces) if items else 1
        self._again.extend(items[start : start + size] for start in range(0, len(items), size))

    def take(self, width: int) -> tuple[tuple[int, T], ...]:
        """Take the next bundle, of at most the time per bundle and a fair share of what is left for `width` workers.

        The share is exceeded if it is less than the minimum work in a bundle.
        """
        if self._again:
            return self._again.popleft()
        seconds = bundle_seconds(self._seconds, width)
        share = len(self._left) // (SHARES * max(width, 1))
        found: list[tuple[int, T]] = []
        load = 0.0
        while self._left and len(found) < MOST_GROWTH * self._size:
            after = load + self._estimate(self._left[0][0])
            limit = seconds if len(found) < share else min(LEAST_SECONDS, seconds)
            if found and after > limit * (1 + ROUNDING):
                break
            load = after
            found.append(self._left.popleft())
        self._size = max(1, len(found))
        return tuple(found)

    def _estimate(self, group: int) -> float:
        """Seconds of a trial of this group, else of any group, else so that a bundle has the planned size."""
        if group in self._measured:
            total, count = self._measured[group]
            return total / count
        if self._count:
            return self._total / self._count
        return self._seconds / self._size

"""Thin out a product of cases: by default every two levels still meet, a slower suite runs the whole product."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations
from random import Random
from typing import Any

import pytest

Levels = Sequence[Hashable]


def pairwise(
    cases: Iterable[tuple[Any, ...]],
    levels: Callable[[Any], Levels],
    ids: Callable[[Any], str],
    suite: str = "thorough",
) -> list[Any]:
    """Parameters for `pytest.mark.parametrize`; those that show no new pair of levels belong to the slower suite."""
    given = list(cases)
    pairs = [set(combinations(enumerate(levels(case)), 2)) for case in given]
    order = list(range(len(given)))
    Random(0).shuffle(order)  # the order of a product shows new pairs one at a time
    chosen: set[int] = set()
    seen: set[Any] = set()
    # cases that show many new pairs first: about half as many are needed
    for least in range(max(map(len, pairs)), 0, -1):
        for index in order:
            if len(pairs[index] - seen) >= least:
                seen |= pairs[index]
                chosen.add(index)
    return [
        pytest.param(*case, id=ids(case), marks=[] if index in chosen else [getattr(pytest.mark, suite)])
        for index, case in enumerate(given)
    ]

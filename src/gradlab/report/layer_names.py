"""Names of modules on the axes of charts: short enough to be read, and as many as there is room for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

LAYER, MODULE = "layer", "module"
"""What the axis is called: layers have numbers, modules have names."""
MOST, MOST_IN_PANELS = 16, 5
"""Names along an axis; the modules between them have a place and no name."""
LONGEST = 20
"""Characters of a name on an axis."""
BEFORE_NUMBER = re.compile(r"^\D*\.(?=\d)")


def common_names(by_group: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the modules that are layers 1, 2, …; nothing if they differ between groups."""
    found = {tuple(names) for names in by_group.values()}
    return found.pop() if len(found) == 1 else ()


def shorten_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names that are short and still differ: `encoder.layers.0.linear1` becomes `…0.linear1`.

    What stands before the first number is left out of long names if several share it. Names that are still too long
    lose their middle; one that would no longer be unique stays as it is.
    """
    begins = Counter(found[0] for name in names if (found := BEFORE_NUMBER.match(name)))
    short = []
    for name in names:
        begin = BEFORE_NUMBER.match(name)
        if begin is not None and len(name) > LONGEST and begins[begin[0]] > 1:
            name = f"…{name[begin.end() :]}"
        short.append(name if len(name) <= LONGEST else f"{name[:6]}…{name[-(LONGEST - 7) :]}")
    times = Counter(short)
    return tuple(own if times[own] == 1 else name for own, name in zip(short, names, strict=True))


def ticks_of(names: Sequence[str], most: int = MOST) -> list[tuple[int, str]]:
    """Return places, from 1, and names for an axis: all, or some at equal distances, and the last."""
    step = max(1, -(-(len(names) - 1) // (most - 1)))
    places = [*range(0, len(names) - step, step), len(names) - 1]
    short = shorten_names(names)
    return [(place + 1, short[place]) for place in places]

"""What to see in a figure: one sentence, computed from the numbers that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.audits.start import Gain, gain_of
from gradlab.spec.naming import Names, capital, join, say_inside, say_levels
from gradlab.spec.numerals import written

if TYPE_CHECKING:
    from gradlab.report.charts import Line
    from gradlab.report.charts.axis import Dots
    from gradlab.report.charts.base import Numbers

MOST = 4
"""Groups that a sentence names one by one; of more, the two extremes."""
EVEN = 1.15
"""Values closer than this are said to stay."""
SLOW = 1.03
"""A factor per layer below which only the total is told."""
LEVEL = 1.05
"""Along an axis: values that all lie within this factor."""


def see_layers(measured: Measured, lines: Sequence[Line], what: str, *, backwards: bool) -> str:
    """How a size changes over the layers: `In the plain network, δ loses a factor of 4.6 per layer on its way back`."""
    found: list[tuple[str, Gain]] = []
    for line in lines:
        config = measured.entries[line.group].network
        hidden = line.y[:-1] if config is not None and config.model.head == "linear" else line.y
        gain = gain_of(hidden[::-1] if backwards else hidden) if len(hidden) > 2 else None
        if gain is not None:
            found.append((_place(measured, line.group), gain))
    if not found:
        return see_range(measured, lines, what)
    first = "the first module" if measured.study.watched else "layer 1"
    way = f"on its way back to {first}" if backwards else "from the first layer to the last"
    if len(found) <= MOST:
        return f"{capital(way)}, {what} {join([f'{say_gain(gain)} {where}'.strip() for where, gain in found])}."
    ordered = sorted(found, key=lambda each: _log(each[1].in_all))
    (low, least), (high, most) = ordered[0], ordered[-1]
    falls = "falls most" if least.in_all < 1 else "grows least"
    grows = "grows most" if most.in_all > 1 else "falls least"
    begin = capital(f"{way}, {what} {falls} {low}")
    end = f"It {grows} {high}: it {say_gain(most)}" if not is_even(most) else f"{capital(high)}, it keeps its size"
    return f"{begin}: it {say_gain(least)}. {end}."


def is_even(gain: Gain) -> bool:
    """Whether a size is the same at both ends."""
    return 1 / EVEN < gain.in_all < EVEN


def say_gain(gain: Gain) -> str:
    """What a size does over the layers: `loses a factor of 4.6 per layer (4.2 × 10¹² over 19 layers)`."""
    if gain.in_all == 0:
        return f"falls to exactly 0 within {gain.layers} layers"
    if not np.isfinite(gain.in_all):
        return f"overflows within {gain.layers} layers"
    if is_even(gain):
        return "keeps its size"
    word, factor = ("loses", 1 / gain.per_layer) if gain.per_layer < 1 else ("gains", gain.per_layer)
    total = f"{written(max(gain.in_all, 1 / gain.in_all), 2)} over {gain.layers} layers"
    if factor <= SLOW:
        return f"{word} only a factor of {total}"
    return f"{word} a factor of {written(factor, 2 if factor > EVEN else 3)} per layer ({total})"


def _place(measured: Measured, group: str) -> str:
    """Where a group's numbers were measured; nothing if it is the only one."""
    return say_inside(measured.names, group) if len(measured.group_names) > 1 else ""


def _log(value: float) -> float:
    return float(np.log(value)) if value > 0 else -np.inf


def see_range(measured: Measured, lines: Sequence[Line], what: str) -> str:
    """Between which values the layers lie, where a size may be negative."""
    found = [
        (_place(measured, line.group), float(values.min()), float(values.max()))
        for line in lines
        if len(values := line.y[np.isfinite(line.y)])
    ]
    if not found:
        return ""
    if len(found) > MOST:
        low, high = min(found, key=lambda each: each[1]), max(found, key=lambda each: each[2])
        return (
            f"{capital(what)} is lowest {low[0]} ({written(low[1], 2)}) and highest {high[0]} ({written(high[2], 2)})."
        )
    told = [f"between {written(low, 2)} and {written(high, 2)} {where}".strip() for where, low, high in found]
    return f"Over the layers, {what} lies {join(told)}."


def see_ends(measured: Measured, lines: Sequence[Line], what: str) -> str:
    """Where curves end: `Training loss ends at 0.332 in the plain network and at 0.063 in the residual network`."""
    ends = [
        (say_inside(measured.names, line.group), float(line.y[there[-1]]))
        for line in lines
        if len(there := np.flatnonzero(np.isfinite(line.y)))
    ]
    if not ends:
        return ""
    if len(ends) == 1:
        return f"{what} ends at {written(ends[0][1])}."
    values = [value for _, value in ends]
    if len(ends) > MOST:
        (low_where, low), *_, (high_where, high) = sorted(ends, key=lambda end: end[1])
        return f"{what} ends lowest {low_where} ({written(low)}) and highest {high_where} ({written(high)})."
    return f"{what} ends {join([f'at {written(value)} {where}' for where, value in ends])}{_apart(values)}."


def _apart(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f", {written(high / low, 2)} times apart" if low > 0 and high / low > EVEN else ""


def see_axis(measured: Measured, series: Sequence[Dots], path: str, what: str, *, ordered: bool) -> str:
    """What happens along an axis: from its first value to its last, or its lowest and highest level."""
    names = measured.names.by_settings
    found = []
    for dots in series:
        there = [group for group, values in zip(dots.groups, dots.values, strict=True) if len(values)]
        if there:
            found.append((there, dots.medians[1]))
    if not found:
        return ""
    if not ordered or len(found) > MOST:
        flat = sorted((float(v), group) for groups, y in found for group, v in zip(groups, y, strict=True))
        (low, first), (high, last) = flat[0], flat[-1]
        ends = f"lowest {say_inside(names, first)} ({written(low)}) and highest {say_inside(names, last)}"
        return f"{capital(what)} is {ends} ({written(high)}){_apart([low, high])}."
    start, end = (names.groups[group].settings[path] for group in (found[0][0][0], found[0][0][-1]))
    told: list[str] = []
    verbs: list[str] = []
    for groups, y in found:
        verb, course = _say_course(y)
        words = f"{course} {_say_series(names, groups[0], path)}".strip()
        told.append(words if verbs and verb == verbs[-1] else f"{verb} {words}")
        verbs.append(verb)
    return f"From {names.span(path, start, end)}, {what} {join(told)}."


def _say_series(names: Names, group: str, path: str) -> str:
    """What sets a series apart from the others: `without the skip`."""
    return say_levels(names, group, [other for other in names.axes if other != path])


def _say_course(y: Numbers) -> tuple[str, str]:
    """The verb, and from where to where; a value in between that lies beyond both ends is told too."""
    first, last, low, high = float(y[0]), float(y[-1]), float(y.min()), float(y.max())
    if low > 0 and high / low < LEVEL:
        return "stays", f"near {written(last)}"
    verb, ends = "falls" if last < first else "rises", f"from {written(first)} to {written(last)}"
    if low > 0 and high / max(first, last) > LEVEL:
        return verb, f"{ends} (by way of {written(high)})"
    return verb, f"{ends} (by way of {written(low)})" if low > 0 and min(first, last) / low > LEVEL else ends

"""What to see in a figure: one sentence, computed from the numbers that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.audits.start import Gain, gain_of
from gradlab.spec.numerals import written

if TYPE_CHECKING:
    from gradlab.report.charts import Line
    from gradlab.report.charts.axis import Dots
    from gradlab.report.charts.base import Numbers

MOST = 4
"""Groups that a sentence names one by one; of more, the two extremes."""
EVEN = 1.15
"""Values closer than this are said to stay."""


def see_layers(measured: Measured, lines: Sequence[Line], what: str, *, backwards: bool) -> str:
    """How a size changes from layer to layer: `plain: ‖δ‖ loses a factor of 4.6 per layer on its way back`."""
    found: list[tuple[str, Gain]] = []
    for line in lines:
        config = measured.entries[line.group].config
        hidden = line.y[:-1] if config is not None and config.model.head == "linear" else line.y
        gain = gain_of(hidden[::-1] if backwards else hidden) if len(hidden) > 2 else None
        if gain is not None:
            found.append((measured.names.group(line.group), gain))
    if not found:
        return ""
    way = "from the last layer to the first" if backwards else "from the first layer to the last"
    if len(found) <= MOST:
        said = "; ".join(f"{name}: {_say_gain(gain)}" for name, gain in found)
        return f"{what} {way}: {said}."
    ordered = sorted(found, key=lambda each: _log(each[1].in_all))
    (low, least), (high, most) = ordered[0], ordered[-1]
    return f"{what} {way} falls most in {low} ({_say_gain(least)}); at the other end, {high} {_say_gain(most)}."


def _say_gain(gain: Gain) -> str:
    if gain.in_all == 0:
        return f"falls to exactly 0 within {gain.layers} layers"
    if not np.isfinite(gain.in_all):
        return f"grows beyond all numbers within {gain.layers} layers"
    if 0.97 <= gain.per_layer <= 1.03 or 1 / EVEN < gain.in_all < EVEN:
        return f"keeps its size ({written(gain.in_all, 2)} times over {gain.layers} layers)"
    word, factor = ("loses", 1 / gain.per_layer) if gain.per_layer < 1 else ("gains", gain.per_layer)
    total = max(gain.in_all, 1 / gain.in_all)
    each = written(factor, 2 if factor > EVEN else 3)
    return f"{word} a factor of {each} per layer, {written(total, 2)} over {gain.layers} layers"


def _log(value: float) -> float:
    return float(np.log(value)) if value > 0 else -np.inf


def see_ends(measured: Measured, lines: Sequence[Line], what: str) -> str:
    """Where curves end: `Training loss ends at 0.332 (plain) and 0.063 (residual), 5.3 times apart.`"""
    ends = [
        (measured.names.group(line.group), float(line.y[there[-1]]))
        for line in lines
        if len(there := np.flatnonzero(np.isfinite(line.y)))
    ]
    if not ends:
        return ""
    if len(ends) == 1:
        return f"{what} ends at {written(ends[0][1])}."
    if len(ends) > MOST:
        ends = sorted(ends, key=lambda end: end[1])
        (low_name, low), (high_name, high) = ends[0], ends[-1]
        return f"{what} ends between {written(low)} ({low_name}) and {written(high)} ({high_name})."
    listed = ", ".join(f"{written(value)} ({name})" for name, value in ends)
    return f"{what} ends at {listed}{_apart([value for _, value in ends])}."


def _apart(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f": {written(high / low, 2)} times apart" if low > 0 and high / low > EVEN else ""


def see_axis(measured: Measured, series: Sequence[Dots], path: str, what: str, *, ordered: bool) -> str:
    """What happens along an axis: from its first value to its last, or its best and worst level."""
    names = measured.names.by_settings
    found = []
    for dots in series:
        there = [group for group, values in zip(dots.groups, dots.values, strict=True) if len(values)]
        if there:
            found.append((names.group(dots.groups[0], (path,)), there, dots.medians[1]))
    if not found:
        return ""
    if not ordered or len(found) > MOST:
        flat = sorted((float(v), group) for _, groups, y in found for group, v in zip(groups, y, strict=True))
        (low, first), (high, last) = flat[0], flat[-1]
        said = f"{what} lies between {written(low)} ({names.group(first)}) and {written(high)} ({names.group(last)})"
        return f"{said}{_apart([low, high])}."
    start, end = (names.groups[group].settings[path] for group in (found[0][1][0], found[0][1][-1]))
    parts = [f"{name}: {_say_course(y)}" if name and len(found) > 1 else _say_course(y) for name, _, y in found]
    return f"{what} from {names.span(path, start, end)}: {'; '.join(parts)}."


def _say_course(y: Numbers) -> str:
    first, last = float(y[0]), float(y[-1])
    if first > 0 and 1 / 1.05 < last / first < 1.05:
        return f"stays near {written(last)}"
    return f"{'falls' if last < first else 'rises'} from {written(first)} to {written(last)}"

"""Give the axes of a drawn chart their ticks: as many as the length of an axis has room for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import cos, radians, sin
from typing import Any

import numpy as np

from gradlab.report.look import plain, pt
from gradlab.report.text_size import HEIGHT, text_height, text_width, wrapped
from gradlab.report.ticks import (
    Ticks,
    drop_minor_ticks,
    fitting,
    layer_ticks,
    linear_ticks,
    log_ticks,
    set_ticks,
    thinned_ticks,
)
from gradlab.spec.numerals import written

TURNED = 32
"""Degrees by which words are turned that have no room side by side."""
BESIDE = 38
"""Points to the left of the axes that turned words may use."""


def settle_x(ax: Any, length: float) -> tuple[float, float]:
    """Ticks along; returns their height, and how far the last label reaches beyond the axis."""
    size = pt(9)
    axis = ax.xaxis
    drop_minor_ticks(axis)
    given = given_ticks(axis)

    def room(ticks: Ticks) -> bool:
        return _have_room(axis, ticks, length, size)

    if given is None:
        ticks = fitting(_maker(axis), max(2, min(9, int(length / pt(30)))), room)
    elif room(given) or all(_is_numeral(text) for _, text in given):
        ticks = thinned_ticks(given, room)
    else:
        return _settle_words(axis, given, length, size)
    if given is None or len(ticks) < len(given):  # setting ticks is what costs most in a layout
        set_ticks(axis, [(place, plain(text)) for place, text in ticks], rotation=0, ha="center")
    if not ticks:
        return 0.0, 0.0
    last = max(ticks)
    over = _place(axis, last[0]) * length + text_width(last[1], size) / 2 - length
    return max(text_height(text, size) for _, text in ticks), max(over, 0.0)


def settle_y(ax: Any, length: float) -> float:
    """Ticks upwards; returns the width of the widest label."""
    axis, size = ax.yaxis, pt(9)
    drop_minor_ticks(axis)
    ticks = given_ticks(axis)
    words = ticks is not None and not all(_is_numeral(text.strip()) for _, text in ticks)
    if ticks is None:
        ticks = _maker(axis)(max(2, min(9, int(length / pt(21)))))
        set_ticks(axis, ticks)
    elif not words and len(ticks) > 1:

        def room(found: Ticks) -> bool:
            places = sorted(_place(axis, place) * length for place, _ in found)
            return all(b - a >= 1.3 * size for a, b in pairwise(places))

        fewer = thinned_ticks(ticks, room)
        if len(fewer) < len(ticks):
            set_ticks(axis, fewer)
        ticks = fewer
    return max((text_width(text, size, bold=words) for _, text in ticks), default=0.0)


def given_ticks(axis: Any) -> Ticks | None:
    """The ticks that the chart set itself, with their labels; None if it left them to the layout."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, NullLocator

    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    if isinstance(locator, NullLocator):
        return []
    if not isinstance(locator, FixedLocator):
        return None
    places = [float(place) for place in axis.get_majorticklocs()]
    if not isinstance(formatter, FixedFormatter | FuncFormatter):
        return [(place, written(place)) for place in places]
    return list(zip(places, (str(t).replace(r"\$", "$") for t in formatter.format_ticks(places)), strict=True))


def _maker(axis: Any) -> Callable[[int], Ticks]:
    low, high = sorted(map(float, axis.get_view_interval()))
    whole = bool(getattr(axis.get_major_locator(), "_integer", False))
    if axis.get_scale() == "log":
        return lambda most: log_ticks(low, high, most)
    if whole and 0 < low < 1:
        return lambda most: layer_ticks(high, min(most, 7))
    return lambda most: linear_ticks(low, high, most, whole=whole)


def _settle_words(axis: Any, given: Ticks, length: float, size: float) -> tuple[float, float]:
    """Words side by side: in several lines where that is enough, else turned."""
    each = length / max(len(given), 1) - pt(5)
    folded = [(place, wrapped(text, max(each, pt(24)), size)) for place, text in given]
    whole = all(" " in text or "\n" not in lines for (_, text), (_, lines) in zip(given, folded, strict=True))
    if whole and _have_room(axis, folded, length, size) and max(text.count("\n") for _, text in folded) < 3:
        set_ticks(axis, [(place, plain(text)) for place, text in folded], rotation=0, ha="center", linespacing=1.05)
        return max(text_height(text, size) for _, text in folded), 0.0
    turned = [(place, _cut_begin(text, _place(axis, place) * length + pt(BESIDE), size)) for place, text in given]
    set_ticks(
        axis, [(place, plain(text)) for place, text in turned], rotation=TURNED, ha="right", rotation_mode="anchor"
    )
    longest = max(text_width(text, size) for _, text in turned)
    return longest * sin(radians(TURNED)) + size * HEIGHT * cos(radians(TURNED)), 0.0


def _cut_begin(text: str, room: float, size: float) -> str:
    """The end of a word that is turned and would reach beyond the figure to the left."""
    whole = text
    while len(text) > 4 and text_width(text, size) * cos(radians(TURNED)) > room:
        text = f"…{text.removeprefix('…')[1:]}"
    return text if len(text) > 4 else whole


def _have_room(axis: Any, ticks: Ticks, length: float, size: float) -> bool:
    places = [(_place(axis, place) * length, text_width(text, size)) for place, text in sorted(ticks)]
    return all(b - a >= (wide_a + wide_b) / 2 + pt(5) for (a, wide_a), (b, wide_b) in pairwise(places))


def _place(axis: Any, value: float) -> float:
    low, high = axis.get_view_interval()
    forward = axis.get_transform().transform
    a, b, v = (float(forward(np.array([each]))[0]) for each in (low, high, value))
    return (v - a) / (b - a) if b != a else 0.5


def _is_numeral(text: str) -> bool:
    return bool(text) and text[0] in "0123456789−." and not any(c.isalpha() for c in text)

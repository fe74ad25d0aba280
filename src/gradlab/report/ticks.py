"""Ticks of an axis: few, round, labeled as people write numbers, and never so close that labels touch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from math import cos, radians
from textwrap import wrap
from typing import Any

import numpy as np

from gradlab.report.look import plain, pt
from gradlab.words import power, written

# How wide text is, without drawing it.

SAFE = 1.05
"""Letters on a grid of pixels are a little wider than their outlines."""
HEIGHT = 1.2
"""A line of text, as a multiple of its size in points."""


@cache
def _advance(letter: str, bold: bool) -> float:
    """How far a letter moves the pen, at a size of 1 point; summing letters is far cheaper than measuring lines."""
    from matplotlib.font_manager import FontProperties, findfont, get_font
    from matplotlib.ft2font import LoadFlags

    font = get_font(findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")))
    font.set_size(100, 72)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks becomes a box
        try:
            return SAFE * float(font.load_char(ord(letter), flags=LoadFlags.NO_HINTING).horiAdvance) / 6400
        except RuntimeError:
            return SAFE


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Width in points of the widest line."""
    lines = text.replace(r"\$", "$").split("\n")
    return max(sum(_advance(letter, bold) for letter in line) for line in lines) * size


def text_height(text: str, size: float) -> float:
    """Height in points."""
    return HEIGHT * size * (1 + text.count("\n"))


def wrapped(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """The text in lines of at most so many points, broken between words."""
    lines = []
    for paragraph in text.split("\n"):
        if text_width(paragraph, size, bold=bold) <= width:
            lines.append(paragraph)
            continue
        letter = text_width(paragraph, size, bold=bold) / max(len(paragraph), 1)
        characters = max(int(width / max(letter, 0.1)), 8)
        pieces = wrap(paragraph, characters) or [""]
        while characters > 8 and max(text_width(line, size, bold=bold) for line in pieces) > width:
            characters -= max(characters // 20, 1)
            pieces = wrap(paragraph, characters)
        lines += pieces
    return "\n".join(lines)


# Where ticks stand.

Ticks = list[tuple[float, str]]
"""(place, label), in order."""
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MANTISSAS = ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9))
FEWEST = 2


def linear_ticks(low: float, high: float, most: int, *, whole: bool = False) -> Ticks:
    """At most so many round numbers between two ends; whole ones only, if asked for."""
    if not high > low:
        return [(low, written(low))]
    raw = (high - low) / max(most - 1, 1)
    if not 1e-300 < raw < math.inf:  # between two such ends there is no round number that a float can hold
        return [(low, written(low))]
    base = 10.0 ** math.floor(math.log10(raw))
    for step in (base * factor for factor in (*STEPS, 20.0, 25.0, 50.0)):
        if whole and (step < 1 or step != round(step)):
            continue
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            return _labeled([index * step for index in range(first, last + 1)], step)
    return [(low, written(low))]


def layer_ticks(high: float, most: int) -> Ticks:
    """Every layer, every second, or 1 and round numbers: layers are counted from 1."""
    last = int(high)
    for step in (1, 2):
        if -(-last // step) <= most:
            return [(float(layer), f"{layer:,}") for layer in range(1, last + 1, step)]
    found = [(place, text) for place, text in linear_ticks(1, high, most, whole=True) if place > 1]
    step_found = found[1][0] - found[0][0] if len(found) > 1 else 1
    return [(1.0, "1"), *(tick for tick in found if tick[0] - 1 >= 0.6 * step_found)]


def log_ticks(low: float, high: float, most: int) -> Ticks:
    """Powers of ten; between them too, where an axis spans little."""
    if not 0 < low < high < math.inf:
        return []
    first, last = math.floor(math.log10(low) - 1e-9), math.ceil(math.log10(high) + 1e-9)
    decades = [e for e in range(first, last + 1) if _inside(10.0**e, low, high)]
    if len(decades) > most:
        steps = (2, 3, 4, 5, 10, 20, 25, 50, 100, 200)  # the last leaves at most four: doubles span 632 decades
        apart = next((n for n in steps if len([e for e in decades if e % n == 0]) <= most), steps[-1])
        return [(10.0**e, power(e)) for e in decades if e % apart == 0]
    best = [10.0**e for e in decades]
    for mantissas in MANTISSAS:
        found = [m * 10.0**e for e in range(first, last + 1) for m in mantissas if _inside(m * 10.0**e, low, high)]
        if len(found) > most:
            break
        if len(best) < 3 or len(mantissas) == 1:
            best = found
    if len(best) < FEWEST:
        return [(place, text) for place, text in linear_ticks(low, high, most) if place > 0]
    all_powers = all(abs(math.log10(v) - round(math.log10(v))) < 1e-9 for v in best)
    if all_powers and (best[0] < 1e-2 or best[-1] > 1e4):
        return [(v, power(round(math.log10(v)))) for v in best]
    return [(v, written(float(f"{v:.6g}"))) for v in best]


def fitting(make: Callable[[int], Ticks], most: int, room: Callable[[Ticks], bool]) -> Ticks:
    """As many ticks as have room: `make` gives at most so many, `room` says whether their labels do not touch."""
    found: Ticks = []
    for count in range(max(most, 2), 1, -1):
        found = make(count)
        if room(found):
            return found
    return [found[0], found[-1]] if len(found) > 2 and room([found[0], found[-1]]) else found[-1:]


def thinned_ticks(ticks: Ticks, room: Callable[[Ticks], bool]) -> Ticks:
    """Every second, third, … of given ticks, the first one always, until their labels do not touch."""
    for every in range(1, len(ticks) + 1):
        found = ticks[::every]
        if room(found):
            return found
    return ticks[:1]


def _inside(value: float, low: float, high: float) -> bool:
    return low * (1 - 1e-9) <= value <= high * (1 + 1e-9)


def _labeled(places: Sequence[float], step: float) -> Ticks:
    largest = max((abs(place) for place in places), default=0.0)
    if largest and (largest >= 1e6 or largest < 1e-3):
        return [(place, written(float(f"{place:.6g}"))) for place in places]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    digits += abs(round(step * 10**digits) - step * 10**digits) > 1e-6  # steps of 2.5, 0.25, …
    return [(place, f"{0.0 + place:,.{digits}f}".replace("-", "−")) for place in places]


# As many as the length of an axis has room for.

TURNED = 32
"""Degrees by which words are turned that have no room side by side."""
BESIDE = 38
"""Points to the left of the axes that turned words may use."""


class AxisTicks:
    """The ticks of a drawn axis: those that the chart gave it, or round numbers, as many as have room."""

    def __init__(self, axis: Any) -> None:
        from matplotlib.ticker import NullLocator

        self.axis, self.upright, self.size = axis, axis.axis_name == "y", pt(9)
        axis.set_minor_locator(NullLocator())  # a log axis of matplotlib has labels between the powers of ten
        self.given = _given_ticks(axis)
        self.words = self.given is not None and not all(_is_numeral(text.strip()) for _, text in self.given)
        self.whole = bool(getattr(axis.get_major_locator(), "_integer", False))
        self._settled: tuple[Ticks, dict[str, Any]] | None = None

    def settle(self, length: float) -> bool:
        """Give the axis its ticks, now that it is so many points long; says whether they are others than before."""
        if self.given is None:
            most = max(2, min(9, int(length / pt(21 if self.upright else 30))))
            return self._set(fitting(self._make, most, lambda ticks: self._have_room(ticks, length)))
        if not self.words or (not self.upright and self._have_room(self.given, length)):
            return self._set(thinned_ticks(self.given, lambda ticks: self._have_room(ticks, length)))
        return not self.upright and self._settle_words(self.given, length)

    def _make(self, most: int) -> Ticks:
        low, high = sorted(map(float, self.axis.get_view_interval()))
        if self.axis.get_scale() == "log":
            return log_ticks(low, high, most)
        if self.whole and 0 < low < 1:
            return layer_ticks(high, min(most, 7))
        return linear_ticks(low, high, most, whole=self.whole)

    def _settle_words(self, given: Ticks, length: float) -> bool:
        """Words side by side: in several lines where that is enough, else turned."""
        width = max(length / max(len(given), 1) - pt(5), pt(24))
        folded = [(place, wrapped(text, width, self.size)) for place, text in given]
        unbroken = all(" " in text or "\n" not in lines for (_, text), (_, lines) in zip(given, folded, strict=True))
        if unbroken and self._have_room(folded, length) and max(text.count("\n") for _, text in folded) < 3:
            return self._set(folded, linespacing=1.05)
        room = [self._place(place) * length + pt(BESIDE) for place, _ in given]
        cut = [(place, _cut_begin(text, far, self.size)) for (place, text), far in zip(given, room, strict=True)]
        return self._set(cut, rotation=TURNED, ha="right", rotation_mode="anchor")

    def _set(self, ticks: Ticks, **style: Any) -> bool:
        if self._settled == (ticks, style):  # setting ticks is what costs most
            return False
        self._settled = (ticks, style)
        if not self.upright:
            style = {"rotation": 0, "ha": "center", **style}
        self.axis.set_ticks([place for place, _ in ticks], [plain(text) for _, text in ticks], **style)
        return True

    def _have_room(self, ticks: Ticks, length: float) -> bool:
        """Whether labels do not touch."""
        places = [
            (
                self._place(place) * length,
                0.65 * self.size if self.upright else text_width(text, self.size) / 2 + pt(2.5),
            )
            for place, text in ticks
        ]
        return all(b - a >= half_a + half_b for (a, half_a), (b, half_b) in pairwise(sorted(places)))

    def _place(self, value: float) -> float:
        return fraction(self.axis, value)


def fraction(axis: Any, value: float) -> float:
    """Where a value stands between the ends of an axis, 0 to 1."""
    low, high, at = axis.get_transform().transform(np.array([*axis.get_view_interval(), value], float))
    return float((at - low) / (high - low)) if high != low else 0.5


def _given_ticks(axis: Any) -> Ticks | None:
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


def _cut_begin(text: str, room: float, size: float) -> str:
    """The end of a word that is turned and would reach beyond the figure to the left."""
    whole = text
    while len(text) > 4 and text_width(text, size) * cos(radians(TURNED)) > room:
        text = f"…{text.removeprefix('…')[1:]}"
    return text if len(text) > 4 else whole


def _is_numeral(text: str) -> bool:
    return bool(text) and text[0] in "0123456789−." and not any(c.isalpha() for c in text)

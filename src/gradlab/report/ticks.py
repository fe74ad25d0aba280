"""Ticks of an axis: few, round, labeled as people write numbers, and never so close that labels touch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gradlab.spec.numerals import power, written

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
        apart = next(n for n in (2, 3, 4, 5, 10, 20, 25, 50, 100) if len([e for e in decades if e % n == 0]) <= most)
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


def drop_minor_ticks(axis: Any) -> None:
    """A log axis of matplotlib has ticks, and even labels, between the powers of ten."""
    from matplotlib.ticker import NullLocator

    axis.set_minor_locator(NullLocator())


def set_ticks(axis: Any, ticks: Ticks, **style: Any) -> None:
    """Give an axis these ticks and no others."""
    drop_minor_ticks(axis)
    axis.set_ticks([place for place, _ in ticks], [text for _, text in ticks], **style)


def _inside(value: float, low: float, high: float) -> bool:
    return low * (1 - 1e-9) <= value <= high * (1 + 1e-9)


def _labeled(places: Sequence[float], step: float) -> Ticks:
    largest = max((abs(place) for place in places), default=0.0)
    if largest and (largest >= 1e6 or largest < 1e-3):
        return [(place, written(float(f"{place:.6g}"))) for place in places]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    digits += abs(round(step * 10**digits) - step * 10**digits) > 1e-6  # steps of 2.5, 0.25, …
    return [(place, f"{0.0 + place:,.{digits}f}".replace("-", "−")) for place in places]

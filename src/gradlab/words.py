"""Words for people, one way to write each: a number, a count, a list, how a size changes over the layers.

Every room may import this, so that a refusal, a caption and an audit write the same thing alike.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlab.facts import Gain


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SMALL, LARGE = 1e-3, 1e6
"""Between these a number is written out; beyond them, with a power of ten."""
SMALLEST_POWER = -300
"""Below this, 10^exponent is not exact any more."""


def power(exponent: int) -> str:
    """`10⁻³`."""
    return f"10{str(exponent).translate(_RAISED)}"


def written(value: float | int | None, digits: int = 3) -> str:
    """A number with at most so many significant digits; missing, NaN and infinity by name."""
    return _write(value, digits, "g")


def rounded(value: float | int | None, digits: int = 3) -> str:
    """A measured number with exactly so many significant digits: `0.890`, `1.00`; whole numbers as they are."""
    if value is not None and math.isfinite(value) and float(value).is_integer() and abs(value) < LARGE:
        return _write(int(value), digits, "g")
    return _write(value, digits, "#g")


def bracket(low: float | None, high: float | None, digits: int = 3) -> str:
    """The ends of an interval: `[0.061, 0.065]`."""
    return f"[{rounded(low, digits)}, {rounded(high, digits)}]"


def _write(value: float | int | None, digits: int, form: str) -> str:
    if value is None:
        return "–"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    sign = "−" if value < 0 else ""
    size = abs(value)
    if isinstance(value, int) and size < LARGE:
        return f"{sign}{size:,}"
    near = float(f"{size:.{digits}g}")
    if near < SMALL or near >= LARGE:
        return sign + scientific(near, digits)
    if near >= 10 ** (digits - 1):
        return f"{sign}{near:,.0f}"
    alternate, kind = form[:-1], form[-1]
    return f"{sign}{near:{alternate}.{digits}{kind}}"


def scientific(size: float, digits: int = 3) -> str:
    """A positive number by its power of ten: `10⁶`, `2.6 × 10¹²`."""
    exponent = math.floor(math.log10(size) + 1e-12)
    if exponent < SMALLEST_POWER:
        return f"{size:.1e}"
    factor = f"{size / 10.0**exponent:.{digits}g}"
    if factor == "10":
        exponent, factor = exponent + 1, "1"
    return power(exponent) if factor == "1" else f"{factor} × {power(exponent)}"


def percent(share: float) -> str:
    """`35 %`."""
    return f"{100 * share:.0f} %"


def counted(number: int, word: str, words: str = "") -> str:
    """`1 seed`, `5,006 seeds`, `2 sentences of theirs`; `words` is a plural that is not the noun with an s."""
    noun, of, rest = word.partition(" of ")
    return f"{number:,} {word if number == 1 else words or f'{noun}s{of}{rest}'}"


def counted_were(number: int, word: str) -> str:
    """`1 seed was`, `3 seeds were`."""
    return f"{counted(number, word)} {'was' if number == 1 else 'were'}"


def how_often(count: int) -> str:
    """`once`, `2 times`."""
    return "once" if count == 1 else f"{count:,} times"


def join(words: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


SHOWN = 4
"""Names that a sentence lists before it says how many more there are."""


def listed(names: Iterable[Any], most: int = SHOWN, *, none: str = "", apart: str = ", ") -> str:
    """The first few names and how many more there are: `a, b, c, d and 3 more`; `a; b; and 3 more` of long ones."""
    every = list(map(str, names))
    more = f"{apart.removesuffix(' ').removesuffix(',')} and {len(every) - most:,} more" if len(every) > most else ""
    return f"{apart.join(every[:most])}{more}" or none


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


# How a size changes over the layers.

SLOW = 1.03
"""A factor per layer below which only the total is told."""


def per_layer(factor: float, digits: int = 3) -> str:
    """`loses a factor of 4.57 per layer`, `gains a factor of 1.05 per layer`."""
    word, size = ("loses", 1 / factor) if factor < 1 else ("gains", factor)
    return f"{word} a factor of {written(size, digits)} per layer"


def say_gain(gain: Gain) -> str:
    """What a size does over the layers: `loses a factor of 4.6 per layer (4.2 × 10¹² over 19 layers)`."""
    layers = counted(gain.layers, "layer")
    if 0 in (gain.in_all, gain.per_layer):
        return f"falls to exactly 0 within {layers}"
    if math.inf in (gain.in_all, gain.per_layer):
        return f"overflows within {layers}"
    if gain.even:
        return "keeps its size"
    total = f"{written(gain.size, 2)} over {layers}"
    if 1 / SLOW <= gain.per_layer <= SLOW:
        return f"{'loses' if gain.per_layer < 1 else 'gains'} only a factor of {total}"
    return f"{per_layer(gain.per_layer, 3 if gain.nearly_even else 2)} ({total})"


def describe_layer(layer: object) -> str:
    """A layer in words: `layer 3`, `last layer`, `smallest over layers`."""
    if layer in ("smallest", "largest"):
        return f"{layer} over layers"
    return f"layer {layer}" if isinstance(layer, int) else f"{layer} layer{'s' * (layer == 'all')}"


# Texts without characters that nobody sees.

_INVISIBLE = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Unicode categories of control, format (direction, zero width), private, surrogate and line characters."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u3164\uffa0")
"""Letters and marks without width or visible shape."""


def visible(text: str) -> str:
    """Escape characters that could move the cursor, change the text direction or be invisible."""
    if text.isprintable() and _BLANK.isdisjoint(text):
        return text
    return "".join(_escape_character(c) if is_hidden(c) and c not in "\n\t" else c for c in text)


def is_hidden(letter: str) -> bool:
    """Whether a character moves the cursor, changes the direction, or has no visible shape."""
    return letter in _BLANK or unicodedata.category(letter) in _INVISIBLE


def _escape_character(letter: str) -> str:
    number = ord(letter)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"

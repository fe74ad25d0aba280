"""Numbers as people write them: 5,006, 0.063, 10⁶, 2.6 × 10¹²."""

from __future__ import annotations

import math

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


def counted(number: int, word: str) -> str:
    """`1 seed`, `5,006 seeds`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"

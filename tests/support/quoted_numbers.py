"""Numbers as a page writes them, and whether two of them are the same finding on two processors."""

from __future__ import annotations

import math
import re

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?")
RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def value_of(number: str) -> float:
    size, _, power = number.replace(",", "").partition(" × 10")
    return float(size) * 10.0 ** int(power.translate(RAISED) or 0)


def unit_of(number: str) -> float:
    """One in the last digit that is written: 0.01 of 3.15."""
    size, _, power = number.replace(",", "").partition(" × 10")
    return 10.0 ** (int(power.translate(RAISED) or 0) - len(size.partition(".")[2]))


def agree(a: str, b: str, close: float = 0.1, power: float = 0.05) -> bool:
    """Whether two numbers differ by no more than another processor's rounding may do.

    That is one in the last digit, a share of the number (by default a tenth: training enlarges rounding), or a share of
    its exponent: rounding errors grow as fast as what explodes, so 3 × 10²⁸ and 10²⁹ are the same finding.
    """
    x, y = value_of(a), value_of(b)
    if abs(x - y) <= 1.01 * max(unit_of(a), unit_of(b), close * max(x, y)):
        return True
    return min(x, y) > 0 and abs(math.log10(x / y)) <= power * abs(math.log10(x))

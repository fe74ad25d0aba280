"""Log axes whose labels are plain text, 10⁻¹², and whose ticks are few: laying out more takes half a report's time."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
FEW_DECADES, MANY_DECADES = 1.1, 4.0
"""An axis that spans less has labels between the powers of ten too; one that spans more has no ticks there."""
BETWEEN = (2, 5)


def log_y(ax: Any) -> None:
    """A log axis upwards."""
    ax.set_yscale("log")
    label_decades(ax.yaxis)


def log_x(ax: Any) -> None:
    """A log axis along."""
    ax.set_xscale("log")
    label_decades(ax.xaxis)


def label_decades(axis: Any) -> None:
    """Powers of ten by their exponents, on a log axis that is there."""
    major, minor, between = _ticker()
    axis.set_major_formatter(major())
    axis.set_minor_formatter(minor())
    axis.set_minor_locator(between(subs=range(2, 10)))


def decade(value: float) -> str:
    """`10⁻³` for 0.001; `2×10⁻³` for 0.002; a plain number where that is as short."""
    exponent = math.floor(math.log10(value) + 1e-9)
    factor = value / 10.0**exponent
    power = f"10{str(exponent).translate(_RAISED)}"
    if abs(factor - 1) < 1e-6:
        return power
    return f"{value:g}" if -3 <= exponent < 4 else f"{factor:g}×{power}"


@cache
def _ticker() -> tuple[Any, Any, Any]:
    """Formatters of major and minor ticks, and the place of minor ones; matplotlib is loaded when it is needed."""
    from matplotlib.ticker import Formatter, LogLocator

    def decades(axis: Any) -> float:
        low, high = sorted(axis.get_view_interval())
        return math.log10(high / low) if low > 0 else math.inf

    class Major(Formatter):
        """Every power of ten."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return decade(x) if 0 < x < math.inf else ""

    class Minor(Formatter):
        """Mostly nothing."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            if not 0 < x < math.inf or decades(self.axis) > FEW_DECADES:
                return ""
            factor = x / 10.0 ** math.floor(math.log10(x) + 1e-9)
            return decade(x) if any(abs(factor - each) < 1e-6 for each in BETWEEN) else ""

    class Between(LogLocator):
        """Ticks between the powers of ten, where there is room for them."""

        def __call__(self) -> Any:
            return [] if decades(self.axis) > MANY_DECADES else super().__call__()

    return Major, Minor, Between

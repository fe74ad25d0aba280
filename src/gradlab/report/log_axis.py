"""Log axes whose labels are plain text, 10⁻¹², and whose ticks are few: laying out more takes half a report's time."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

SMALLEST = -300
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
FEW_DECADES, MANY_DECADES = 1.1, 4.0
"""An axis that spans less has labels between the powers of ten too; one that spans more has no ticks there."""
BETWEEN = (2, 5)
FEWEST = 2
"""Labels that an axis has to have: where fewer powers of ten, twos and fives are in view, every tick is labeled."""


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
    if exponent < SMALLEST:  # 10^exponent is no longer exact
        return f"{value:.1e}"
    factor = value / 10.0**exponent
    power = f"10{str(exponent).translate(_RAISED)}"
    if abs(factor - 1) < 1e-6:
        return power
    return f"{value:g}" if -3 <= exponent < 4 else f"{factor:g}×{power}"


def _is_labeled(x: float) -> bool:
    """Whether a number between two powers of ten is one that an axis labels."""
    factor = x / 10.0 ** math.floor(math.log10(x) + 1e-9)
    return any(abs(factor - each) < 1e-6 for each in BETWEEN)


def _labels_in(low: float, high: float) -> int:
    """How many powers of ten, twos and fives lie in view."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return sum(low <= factor * 10.0**exponent <= high for exponent in exponents for factor in (1, *BETWEEN))


@cache
def _ticker() -> tuple[Any, Any, Any]:
    """Formatters of major and minor ticks, and the place of minor ones; matplotlib is loaded when it is needed."""
    from matplotlib.ticker import Formatter, LogLocator

    def view(axis: Any) -> tuple[float, float]:
        low, high = sorted(axis.get_view_interval())
        return float(low), float(high)

    def decades(axis: Any) -> float:
        low, high = view(axis)
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
            return decade(x) if _is_labeled(x) or _labels_in(*view(self.axis)) < FEWEST else ""

    class Between(LogLocator):
        """Ticks between the powers of ten, where there is room for them."""

        def __call__(self) -> Any:
            return [] if decades(self.axis) > MANY_DECADES else super().__call__()

    return Major, Minor, Between

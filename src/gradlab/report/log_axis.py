"""Log axes; `report.layout` gives them their ticks."""

from __future__ import annotations

from typing import Any


def log_y(ax: Any) -> None:
    """A log axis upwards."""
    ax.set_yscale("log")


def log_x(ax: Any) -> None:
    """A log axis along."""
    ax.set_xscale("log")

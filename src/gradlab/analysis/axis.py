"""A study's groups along one of its axes: which value each has there, and which series it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.spec import selection
from gradlab.spec.paths import label
from gradlab.spec.short import short

LOG_FROM = 8
"""A numeric axis whose largest value is so many times its smallest is drawn by ratios."""


@dataclass(frozen=True)
class Series:
    """Groups that differ in nothing but the axis: (value on the axis, group), in the axis' order."""

    label: str
    points: tuple[tuple[Any, str], ...]


@dataclass(frozen=True)
class AxisView:
    """An axis with its values in order, and the groups along it."""

    path: str
    values: tuple[Any, ...]
    series: tuple[Series, ...]
    labels: tuple[str, ...]
    """The values in words."""

    @property
    def name(self) -> str:
        """The last word of the path: `depth`."""
        return self.path.split(".")[-1]

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers."""
        return all(_is_number(value) for value in self.values)

    @property
    def by_ratio(self) -> bool:
        """Whether it is to be drawn on a log axis."""
        return self.numeric and min(self.values) > 0 and max(self.values) / min(self.values) >= LOG_FROM

    def place(self, value: Any) -> float:
        """Where a value stands: itself if it is a number, else its number in the list."""
        return float(value) if self.numeric else float(self.values.index(value))


def axes_of(measured: Measured) -> dict[str, tuple[Any, ...]]:
    """Paths in which the groups differ, each with its values in order: numbers by size, others as they are written."""
    found = selection.axes_of([planned.group for planned in measured.plan.groups])
    return {path: tuple(sorted(v) if all(map(_is_number, v)) else v) for path, v in found.items()}


def axis_view(measured: Measured, path: str | None = None) -> AxisView | None:
    """The groups along a path; without one, along the numeric axis with most values, or else the longest."""
    axes = axes_of(measured)
    if not axes:
        return None
    chosen = path or max(axes, key=lambda name: (all(map(_is_number, axes[name])), len(axes[name])))
    if chosen not in axes:
        return None
    order, catalog = axes[chosen], measured.plan.catalog
    series: dict[str, list[tuple[Any, str]]] = {}
    for planned in measured.plan.groups:
        settings = planned.group.settings
        rest = ", ".join(
            f"{name.split('.')[-1]}={short(name, settings[name], catalog)}" for name in axes if name != chosen
        )
        series.setdefault(rest, []).append((settings[chosen], planned.group.name))
    ordered = {name: sorted(points, key=lambda point: order.index(point[0])) for name, points in series.items()}
    if any(len({_key(value) for value, _ in points}) < len(points) for points in ordered.values()):
        return None  # groups differ in something that is no path of theirs
    labels = tuple(short(chosen, value, catalog) for value in order)
    return AxisView(chosen, order, tuple(Series(name, tuple(points)) for name, points in ordered.items()), labels)


def _key(value: Any) -> str:
    return label(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def words(measured: Measured, group: str) -> list[str]:
    """What sets a group apart, one short word for each axis: `depth=50`, `init=he_normal`."""
    catalog = measured.plan.catalog
    planned = measured.entries[group]
    there = [path for path in axes_of(measured) if path in planned.group.settings]
    if measured.study.arms is not None or not there:
        return [group]
    return [f"{path.split('.')[-1]}={short(path, planned.group.settings[path], catalog)}" for path in there]

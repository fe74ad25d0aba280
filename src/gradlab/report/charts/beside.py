"""Every arm twice, untuned and tuned, on the same seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.report.charts.base import Chart, Level, Numbers, Rows, draw_levels, legend_text
from gradlab.report.log_axis import log_y
from gradlab.report.look import GROUND, SOFT, plain, pt, stroke

APART = 0.7
"""Distance of the two columns of an arm; arms are 1.5 apart."""
LONGEST = 18
"""Characters of a value."""
BESIDE = 0.12
"""How far a center with its interval stands beside the dots."""
Center = tuple[float, float, float] | None
"""Center, low and high; None without an interval."""


@dataclass(frozen=True)
class TwoColumns:
    """One arm: values[seed] in each column, NaN where there is none."""

    arm: str
    labels: tuple[tuple[str, ...], tuple[str, ...]]
    """The values of each column, one line each."""
    before: Numbers
    after: Numbers
    centers: tuple[Center, Center]


@dataclass(frozen=True)
class BesideChart(Chart):
    """Two columns of dots for each arm, the dots of a seed joined, center and interval beside them."""

    arms: tuple[TwoColumns, ...]
    seeds: tuple[int, ...]
    log_y: bool = False
    levels: tuple[Level, ...] = ()

    @property
    def crowded(self) -> bool:
        """Whether the labels have room for the values alone."""
        return len(self.arms) > 4

    def draw_marks(self, ax: Any) -> None:
        """Hollow dots untuned, full dots tuned."""
        ticks, floor = [], self._floor() if self.log_y else None
        for place, arm in enumerate(self.arms):
            s, left = stroke(place), 1.5 * place
            places = (left, left + APART)
            columns = [_lift_zeros(values, floor) for values in (arm.before, arm.after)]
            for pair in zip(*columns, strict=True):
                ax.plot(places, pair, color=SOFT, linewidth=pt(0.8), alpha=0.55, zorder=1)
            for column, values in enumerate(columns):
                ax.plot(
                    np.full(len(values), places[column]), values, linestyle="none", marker=s.marker, markersize=pt(5),
                    color=s.color, markerfacecolor=s.color if column else GROUND, alpha=0.75, zorder=2,
                    label=legend_text(arm.arm) if column else None,
                )  # fmt: skip
                if (center := arm.centers[column]) is not None:
                    middle, low, high = _lift_zeros(np.array(center), floor)
                    ax.errorbar(
                        places[column] + (BESIDE if column else -BESIDE), middle,
                        yerr=[[max(middle - low, 0)], [max(high - middle, 0)]], color=s.color, marker=s.marker,
                        markersize=pt(7), markerfacecolor=s.color if column else GROUND, capsize=pt(4), zorder=3,
                    )  # fmt: skip
                ticks.append((places[column], self._label(column, arm.labels[column])))
        if self.log_y:
            log_y(ax)
        ax.set_xticks([x for x, _ in ticks], [plain(text) for _, text in ticks])
        ax.set_xlim(-0.5, 1.5 * (len(self.arms) - 1) + APART + 0.5)
        ax.grid(axis="x", visible=False)
        ax.margins(y=0.09)
        draw_levels(self.levels, ax)

    def _floor(self) -> float:
        """Where exact zeros stand on a log axis: below all other values."""
        values = np.concatenate([values for arm in self.arms for values in (arm.before, arm.after)])
        return float(values[values > 0].min()) / 3

    def _label(self, column: int, values: tuple[str, ...]) -> str:
        """`tuned` above the values; of many arms the values alone."""
        short = [value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…" for value in values]
        return ", ".join(short) if self.crowded else "\n".join(["tuned" if column else "untuned", *short])

    def table(self) -> Rows:
        """One row per trial."""
        rows = [
            (arm.arm, column, seed, float(value))
            for arm in self.arms
            for column, values in (("untuned", arm.before), ("tuned", arm.after))
            for seed, value in zip(self.seeds, values, strict=True)
        ]
        return ("arm", "", "seed", self.y_label), rows

    def describe(self) -> str:
        """The medians of both columns of every arm."""
        parts = []
        for arm in self.arms:
            medians = [float(np.median(v)) if len(v) else float("nan") for v in map(_finite, (arm.before, arm.after))]
            parts.append(f"{arm.arm}: {medians[0]:.3g} untuned, {medians[1]:.3g} tuned")
        return f"Medians, {'; '.join(parts)}."


def _finite(values: Numbers) -> Numbers:
    return values[np.isfinite(values)]


def _lift_zeros(values: Numbers, floor: float | None) -> Numbers:
    return values if floor is None else np.where(values == 0, floor, values)

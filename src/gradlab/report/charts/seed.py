"""Groups side by side, every trial a dot; of two groups the dots of a seed are joined, as they are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.report.charts.base import Chart, Level, Numbers, Rows, draw_levels
from gradlab.report.log_axis import log_y
from gradlab.report.look import SOFT, Stroke, plain, pt, stroke
from gradlab.spec.numerals import written

if TYPE_CHECKING:
    from gradlab.report.scheme import Scheme

BESIDE = 0.16
"""How far the center with its interval stands beside the dots."""


@dataclass(frozen=True)
class SeedChart(Chart):
    """values[seed, group], NaN where there is none; center and interval of each group beside its dots."""

    groups: tuple[str, ...]
    seeds: tuple[int, ...]
    values: Numbers
    centers: tuple[tuple[float, float, float] | None, ...]
    """(center, low, high) of each group."""
    log_y: bool = False
    levels: tuple[Level, ...] = ()
    styles: tuple[Stroke, ...] = ()

    def arranged(self, scheme: Scheme) -> Chart:
        """Names and strokes of the scheme."""
        if not all(group in scheme for group in self.groups):
            return self
        names = tuple(scheme.names.group(group) for group in self.groups)
        return replace(self, groups=names, styles=tuple(scheme.strokes[group] for group in self.groups))

    @property
    def joined(self) -> bool:
        """Whether the dots of a seed are joined: of two groups; between more, lines would suggest an order."""
        return len(self.groups) == 2

    def draw_marks(self, ax: Any) -> None:
        """A thin line for each seed, a dot for each trial, the center as a filled mark with its interval."""
        places = np.arange(len(self.groups), dtype=float)
        for row in self.values if self.joined else ():
            ax.plot(places, row, color=SOFT, linewidth=pt(0.8), alpha=0.55, zorder=1)
        for place, center in enumerate(self.centers):
            s = self.styles[place] if self.styles else stroke(place)
            column = self.values[:, place]
            ax.plot(
                np.full(len(column), places[place]), column, linestyle="none", marker=s.marker, markersize=pt(5),
                color=s.color, alpha=0.6, markeredgewidth=0, zorder=2,
            )  # fmt: skip
            if center is None:
                continue
            middle, low, high = center
            ax.errorbar(
                places[place] + BESIDE, middle, yerr=[[max(middle - low, 0)], [max(high - middle, 0)]],
                color=s.color, marker=s.marker, markersize=pt(8), capsize=pt(4), linewidth=pt(1.8), zorder=3,
            )  # fmt: skip
        if self.log_y:
            log_y(ax)
        ax.set_xticks(places, [plain(name) for name in self.groups])
        ax.set_xlim(-0.5, len(self.groups) - 0.5)
        ax.grid(axis="x", visible=False)
        draw_levels(self.levels, ax)

    def table(self) -> Rows:
        """One row per trial."""
        rows = [
            (group, seed, float(self.values[row, place]))
            for place, group in enumerate(self.groups)
            for row, seed in enumerate(self.seeds)
        ]
        return ("group", "seed", self.y_label), rows

    def describe(self) -> str:
        """The center of every group."""
        parts = [f"{name}: {written(c[0])}" for name, c in zip(self.groups, self.centers, strict=True) if c is not None]
        return f"Centers, {'; '.join(parts)}."

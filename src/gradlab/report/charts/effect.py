"""Main effects of a factorial study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.report.charts.base import Chart, Rows, legend_text
from gradlab.report.log_axis import log_y
from gradlab.report.look import plain, stroke


@dataclass(frozen=True)
class EffectChart(Chart):
    """Main effects of a factorial study: the marginal mean of every level of every factor, with intervals."""

    factors: tuple[tuple[str, tuple[tuple[str, float, float | None, float | None], ...]], ...]
    """(factor, ((level, mean, low, high), …)), the largest effect first."""
    log_y: bool = False

    @property
    def note_drop(self) -> int:
        """Below the turned labels."""
        return 104

    def table(self) -> Rows:
        """One row per level."""
        rows = [(name, *level) for name, levels in self.factors for level in levels]
        return ("factor", "level", "mean", "low", "high"), rows

    def describe(self) -> str:
        """The means of every factor's levels."""
        parts = [
            f"{name}: " + ", ".join(f"{lv} {mean:.3g}" for lv, mean, *_ in levels) for name, levels in self.factors
        ]
        return f"{'; '.join(parts)}."

    def draw_marks(self, ax: Any) -> None:
        """Factors side by side, largest effect first."""
        place, ticks = 0.0, []
        for index, (name, levels) in enumerate(self.factors):
            s = stroke(index)
            x = [place + step for step in range(len(levels))]
            means = [mean for _, mean, _, _ in levels]
            spread = [
                (mean - low, high - mean) if low is not None and high is not None else (0.0, 0.0)
                for _, mean, low, high in levels
            ]
            ax.errorbar(
                x, means, yerr=np.array(spread).T, color=s.color, marker=s.marker, linestyle=s.dashes, capsize=3,
                label=legend_text(name),
            )  # fmt: skip
            ticks += list(zip(x, (level for level, *_ in levels), strict=True))
            place += len(levels) + 0.8
        if self.log_y:
            log_y(ax)
        ax.set_xticks([x for x, _ in ticks], [plain(text) for _, text in ticks], rotation=35, ha="right", fontsize=8)
        ax.grid(axis="x", visible=False)

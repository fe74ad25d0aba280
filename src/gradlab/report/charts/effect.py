"""Main effects of a factorial study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradlab.report.charts.base import Chart, Rows
from gradlab.report.log_axis import log_x
from gradlab.report.look import INK, plain, pt, stroke
from gradlab.spec.numerals import written


@dataclass(frozen=True)
class EffectChart(Chart):
    """Main effects of a factorial study: the marginal mean of every level of every factor, with intervals.

    A row for each level, factors below each other, the largest effect on top; levels are categories and not joined.
    """

    factors: tuple[tuple[str, tuple[tuple[str, float, float | None, float | None], ...]], ...]
    """(factor, ((level, mean, low, high), …)), the largest effect first."""
    log_y: bool = False
    """Whether the means are on a log scale."""

    @property
    def text_rows(self) -> int:
        """Rows of the picture: one for each level and one for each factor's name."""
        return sum(len(levels) + 1 for _, levels in self.factors)

    def table(self) -> Rows:
        """One row per level."""
        rows = [(name, *level) for name, levels in self.factors for level in levels]
        return ("factor", "level", "mean", "low", "high"), rows

    def describe(self) -> str:
        """The means of every factor's levels."""
        parts = [
            f"{name}: " + ", ".join(f"{lv} {written(mean)}" for lv, mean, *_ in levels) for name, levels in self.factors
        ]
        return f"{'; '.join(parts)}."

    def draw_marks(self, ax: Any) -> None:
        """A mark with its interval for every level, under its factor."""
        row, ticks = 0.0, []
        for index, (name, levels) in enumerate(self.factors):
            s = stroke(index)
            ticks.append((row, name))
            for place, (level, mean, low, high) in enumerate(levels, 1):
                ticks.append((row + place, f"{level}   "))
                if low is not None and high is not None:
                    ax.plot([low, high], [row + place] * 2, color=s.color, linewidth=pt(2), solid_capstyle="butt")
                ax.plot(mean, row + place, marker=s.marker, color=s.color, markersize=pt(7), linestyle="none")
            row += len(levels) + 1.0
        if self.log_y:
            log_x(ax)
        ax.set_yticks([at for at, _ in ticks], [plain(text) for _, text in ticks])
        for text, (_, name) in zip(ax.get_yticklabels(), ticks, strict=True):
            text.set(fontweight="normal" if name.endswith("   ") else "bold", color=INK)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(row - 0.5, -0.5)
        ax.grid(axis="y", visible=False)
        ax.margins(x=0.06)

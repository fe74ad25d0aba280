"""What a figure is: a chart computed from what was measured, or nothing where it does not apply."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.measured import Measured
from gradlab.facts import EVEN
from gradlab.parts import Part
from gradlab.report.charts import Chart
from gradlab.words import counted, written

Numbers = NDArray[np.float64]
FEW_SEEDS = 20
MOST_NAMED = 4
"""Groups that a sentence names one by one; of more, the two extremes."""
WIDE = 8
"""Values so many times apart are drawn by ratios."""


class Figure(Part):
    """Compute, then draw: `chart` returns data, and the same chart is drawn for terminal, page and file.

    `rank` is its place in the report of a study that names no figures.
    """

    part: ClassVar[str] = "figure"
    shows: ClassVar[tuple[str, ...]] = ()
    """Metrics and measures that can be read off it (`grad_l2@start`: as they are then), to find a claim's figure."""
    of_headline: ClassVar[bool] = False
    """Whether it shows the headline metric of any study."""

    @abstractmethod
    def chart(self, measured: Measured) -> Chart | None:
        """What the figure shows; None where the study has nothing of the kind.

        measured: the run's tables through its plan: `measured.values(metric, group)`, `measured.curve(metric, group)`,
        `measured.profile(measure, group, step)`; read only.
        Returns one of the charts of `gradlab.report.charts` with a title and both axis labels: all groups, each line
        labeled with its group's name. The report then gives it names for people, strokes and panels. Must be
        deterministic.
        """


def band(values: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Median and band over seeds (axis 0) of the finite values; NaN where there is none.

    The band is smallest to largest for few seeds, 5 % to 95 % of them for many.
    """
    finite = np.where(np.isfinite(values), values, np.nan)
    there = np.isfinite(finite).any(0)
    edge = 0.05 if len(values) > FEW_SEEDS else 0.0
    rows = np.full((3, values.shape[1]), np.nan)
    rows[:, there] = np.nanquantile(finite[:, there], (0.5, edge, 1 - edge), axis=0)
    center, low, high = rows
    return center, low, high


def levels_of(measured: Measured, metric: str) -> tuple[tuple[float, str], ...]:
    """The study's own reference lines for a metric."""
    return tuple((level.value, level.name) for level in measured.study.levels if level.metric == metric)


def seeds_note(measured: Measured) -> str:
    """What line and band are."""
    count = measured.seeds_done
    if count <= 1:
        return counted(count, "seed")
    extent = "smallest to largest" if count <= FEW_SEEDS else "5 % to 95 %"
    seeds = counted(count, "seed") if measured.study.until_settled is None else measured.seed_words
    return f"line: median, band: {extent} of {seeds}"


def say_apart(low: float, high: float) -> str:
    """How many times apart two values are, where that is worth saying: `, 5.3 times apart`."""
    return f", {written(high / low, 2)} times apart" if low > 0 and high / low > EVEN else ""

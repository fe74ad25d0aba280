"""The headline, seed by seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.formatting import where
from gradlab.analysis.measured import Measured
from gradlab.report.charts import SeedChart
from gradlab.report.figures.base import Figure, levels_of
from gradlab.spec.numerals import counted
from gradlab.tell.answers import headline_of

MOST = 10
"""Arms that stand side by side."""
APART = 8
"""Values so many times apart are drawn by ratios."""


class BySeed(Figure):
    """The headline of every arm, every trial a dot, the trials of a seed joined, center and 95 % interval beside."""

    name = "by_seed"
    rank = 49

    def chart(self, measured: Measured) -> SeedChart | None:
        """Of arms with names of their own, under several seeds; along an axis other figures show it."""
        headline, groups = headline_of(measured), measured.group_names
        if headline is None or measured.study.arms is None or not 2 <= len(groups) <= MOST or measured.seeds_done < 2:
            return None
        seeds = measured.study.trial_seeds
        values = np.full((len(seeds), len(groups)), np.nan)
        for place, group in enumerate(groups):
            found = measured.values(headline.metric, group, headline.at)
            values[:, place] = [np.nan if (v := found.get(seed)) is None else float(v) for seed in seeds]
        finite = values[np.isfinite(values)]
        if not len(finite):
            return None
        summaries = [measured.summary(headline.metric, group, headline.at) for group in groups]
        centers = tuple(
            None if s.value is None or s.low is None or s.high is None or s.bounded else (s.value, s.low, s.high)
            for s in summaries
        )
        return SeedChart(
            f"{where(headline.metric, headline.at)} by seed".replace("_", " ").capitalize(),
            "arm",
            where(headline.metric, headline.at).replace("_", " "),
            groups,
            seeds,
            np.where(np.isfinite(values), values, np.nan),
            centers,
            log_y=bool(finite.min() > 0 and finite.max() > APART * finite.min()),
            levels=levels_of(measured, headline.metric) if headline.at.layer is None else (),
            note=_note(values, joined=len(groups) == 2),
            finding=_finding(measured, headline.metric, values),
        )


def _note(values: NDArray[np.float64], *, joined: bool) -> str:
    missing = int(np.count_nonzero(~np.isfinite(values)))
    left = f"; {missing} trials have no finite number and are not drawn" if missing else ""
    joins = ", a line joins a seed" if joined else ""
    return f"every dot is a trial{joins}, beside: center and 95 % interval{left}"


def _finding(measured: Measured, metric: str, values: NDArray[np.float64]) -> str:
    """In how many seeds the arm that is best in most of them is best."""
    sign = measured.metric(metric).sign
    whole = values[np.isfinite(values).all(1)]
    if sign == 0 or not len(whole):
        return ""
    winners = np.argmax(sign * whole, axis=1)
    best = int(np.bincount(winners, minlength=values.shape[1]).argmax())
    names = [measured.names.group(group) for group in measured.group_names]
    against = f"better than {names[1 - best]}" if len(names) == 2 else "the best"
    return f"{names[best]} is {against} in {np.count_nonzero(winners == best)} of {counted(len(whole), 'seed')}."

"""What tuning changes: every arm at the value of the base and at its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.formatting import where
from gradlab.analysis.measured import Measured
from gradlab.report.charts import BesideChart, TwoColumns
from gradlab.report.figures.base import Figure, levels_of
from gradlab.report.tuning import base_settings
from gradlab.spec.naming import join
from gradlab.spec.numerals import written
from gradlab.spec.study import Headline
from gradlab.tell.answers import headline_of

MOST = 8
"""Arms that stand side by side."""
APART = 8
"""Values so many times apart are drawn by ratios."""


class TunedBesideUntuned(Figure):
    """The headline of every arm, untuned and tuned, on the same seeds."""

    name = "tuned_beside_untuned"
    rank = 3

    def chart(self, measured: Measured) -> BesideChart | None:
        """Of a study that tunes and trains its arms untuned too."""
        plan, headline = measured.plan, headline_of(measured)
        if plan.tuning is None or headline is None:
            return None
        tuning = plan.tuning
        if tuning.untuned is None or tuning.chosen is None:
            return None
        before = Measured(tuning.untuned, measured.records)
        arms = tuple(
            TwoColumns(
                measured.names.group(arm),
                (base_settings(tuning, arm), tuning.chosen[arm].settings),
                _values(before, untuned, headline),
                _values(measured, arm, headline),
                (_center(before, untuned, headline), _center(measured, arm, headline)),
            )
            for arm, untuned in list(zip(measured.group_names, before.group_names, strict=True))[:MOST]
        )
        finite = np.concatenate([v[np.isfinite(v)] for arm in arms for v in (arm.before, arm.after)])
        if not len(finite):
            return None
        positive, by_ratio = finite[finite > 0], measured.metric(headline.metric).on_logs and finite.min() >= 0
        zeros = "; exact zeros stand at the bottom" if by_ratio and (finite == 0).any() else ""
        name = where(headline.metric, headline.at).replace("_", " ")
        missing = sum(int(np.count_nonzero(~np.isfinite(v))) for arm in arms for v in (arm.before, arm.after))
        left = f"; {missing} trials have no finite number and are not drawn" if missing else ""
        beside = "; beside: center and 95 % interval" if any(c for arm in arms for c in arm.centers) else ""
        return BesideChart(
            f"{name[0].upper()}{name[1:]}, untuned and tuned",
            "arm",
            name,
            arms,
            measured.study.trial_seeds,
            log_y=by_ratio and len(positive) > 0 and bool(positive.max() > APART * positive.min()),
            levels=levels_of(measured, headline.metric) if headline.at.layer is None else (),
            note=f"hollow: untuned, filled: tuned; a dot is a trial on a judging seed, a line joins a seed{beside}"
            f"{zeros}{left}",
            finding=_finding(name, arms),
        )


def _finding(name: str, arms: tuple[TwoColumns, ...]) -> str:
    """What tuning does to the median of each arm."""
    told = [
        f"from {written(before)} to {written(after)} {'in' if arm.arm.startswith('the ') else 'for'} {arm.arm}"
        for arm in arms
        if np.isfinite(before := _median(arm.before)) and np.isfinite(after := _median(arm.after))
    ]
    return f"With its own setting for each arm, the median {name} goes {join(told)}." if told else ""


def _median(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else float("nan")


def _values(measured: Measured, group: str, headline: Headline) -> NDArray[np.float64]:
    found = measured.values(headline.metric, group, headline.at)
    values = [np.nan if (v := found.get(seed)) is None else float(v) for seed in measured.study.trial_seeds]
    return np.where(np.isfinite(values), values, np.nan)


def _center(measured: Measured, group: str, headline: Headline) -> tuple[float, float, float] | None:
    s = measured.summary(headline.metric, group, headline.at)
    return None if s.value is None or s.low is None or s.high is None or s.bounded else (s.value, s.low, s.high)

"""How each arm's result depends on what is tuned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.analysis.tuning import Tried, Tuning, tuning_of
from gradlab.report.charts import Chart, Panels, SensitivityChart, SensitivityCurve
from gradlab.report.figures.base import WIDE, Figure
from gradlab.spec.naming import Names, name_setting
from gradlab.spec.paths import distinct, label, value_at
from gradlab.words import join, written

MOST_LINES = 8
FAR = 300
"""Losses so many times above the best of the worst arm are off the axis."""


class TuningCurves(Figure):
    """The tuning metric of every arm by value: median and range over the tuning seeds, the chosen value marked."""

    name = "tuning_curves"
    rank = 2

    def chart(self, measured: Measured) -> Chart | None:
        """Of a study that tunes; one panel for each setting of which several values were tried."""
        tuning = tuning_of(measured.plan, measured.records)
        if tuning is None or not any(tried.median is not None for tried in tuning.tried):
            return None
        paths = [path for path in tuning.stage.tune.paths if len(_values(tuning, path)) > 1]
        arms = measured.group_names[:MOST_LINES]
        cap = _cap(tuning) or np.inf
        finite = [v for t in tuning.tried for v in (t.best, t.worst) if v is not None and np.isfinite(v) and v <= cap]
        if not paths or not finite:
            return None
        metric, seeds = tuning.metric, tuning.stage.tune.seeds
        name, what = metric.name.replace("_", " "), join(list(map(name_setting, paths)))
        note = f"line: median, band: range of {seeds} tuning seeds; none of these trials enters a verdict"
        note += "; at each value, the best of the other settings" if len(paths) > 1 else ""
        hidden = len(measured.group_names) - len(arms)
        note += f"; the first {MOST_LINES} of {len(measured.group_names)} arms" if hidden else ""
        title = f"Sensitivity to the {what}"
        charts = tuple(
            SensitivityChart(
                name_setting(path) if len(paths) > 1 else title,
                name_setting(path),
                f"{name} (tuning)",
                log_y=metric.on_logs and min(finite) > 0 and max(finite) > WIDE * min(finite),
                lower_is_better=metric.sign < 0,
                cap=_cap(tuning) if metric.on_logs and metric.sign < 0 else None,
                **_setting(tuning, path, arms, measured.names),
            )
            for path in paths
        )
        told: dict[str, str] = {"note": note, "finding": _finding(charts, name)}
        if len(charts) == 1:
            return replace(charts[0], **told)  # type: ignore[arg-type]
        return Panels(title, what, f"{name} (tuning)", charts, "setting", own_labels=True, **told)  # type: ignore[arg-type]


def _finding(charts: tuple[SensitivityChart, ...], metric: str) -> str:
    """Where each arm is best along each setting, and whether that is an end of what was tried."""
    told: list[str] = []
    for chart in charts:
        ticks = dict(chart.ticks)
        for curve in chart.curves:
            if curve.chosen is not None:
                x, y = float(curve.x[curve.chosen]), float(curve.median[curve.chosen])
                edge = ", an end of the range" if curve.edge else ""
                value = ticks.get(x) or written(x)
                verb = "" if told else "is best "
                told.append(f"{curve.arm} {verb}at {chart.x_label} {value} ({metric} {written(y)}{edge})")
    return f"In tuning, {join(told)}." if told else ""


def _cap(tuning: Tuning) -> float | None:
    """Where the axis ends: far above the best of every arm."""
    scores = [[t.median for t in tuning.of(arm) if t.median is not None] for arm in tuning.stage.arms]
    best = [min(own) for own in scores if own and np.isfinite(min(own)) and min(own) > 0]
    return FAR * max(best) if best else None


def _values(tuning: Tuning, path: str) -> list[Any]:
    """The distinct values that were tried at a path: numbers by size, words in their order."""
    found = distinct(tried.candidate.values[path] for tried in tuning.tried)
    return sorted(found) if _are_numbers(found) else found


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _setting(tuning: Tuning, path: str, arms: tuple[str, ...], names: Names) -> dict[str, Any]:
    """The curves of all arms along one tuned setting, its axis, and the value of the base."""
    values = _values(tuning, path)
    numeric = _are_numbers(values)
    base = [value_at(planned.config.model_dump(mode="json"), path) for planned in tuning.stage.base.groups]
    shared = base[0] if numeric and all(value == base[0] for value in base) else None
    return {
        "curves": tuple(_curve(tuning, path, values, arm, index, names) for index, arm in enumerate(arms)),
        "ticks": () if numeric else tuple((float(place), label(value)) for place, value in enumerate(values)),
        "log_x": numeric and min(values) > 0 and max(values) > WIDE * min(values),
        "untuned": float(shared) if isinstance(shared, int | float) else None,
    }


def _curve(tuning: Tuning, path: str, values: list[Any], arm: str, style: int, names: Names) -> SensitivityCurve:
    """An arm along a setting; of several candidates with the same value there, the best."""
    sign, numeric = tuning.metric.sign, _are_numbers(values)
    best: dict[int, Tried] = {}
    for tried in tuning.of(arm):
        place = values.index(tried.candidate.values[path])
        score = tried.median
        if score is not None and (place not in best or sign * score > sign * (best[place].median or 0.0)):
            best[place] = tried
    places = sorted(best)
    chosen = None if tuning.stage.chosen is None else values.index(tuning.stage.chosen[arm].values[path])
    rows = [[each.median, each.best, each.worst] for each in (best[place] for place in places)]
    numbers = np.array(rows, float).reshape(-1, 3)
    x = np.array([float(values[place]) if numeric else float(place) for place in places])
    return SensitivityCurve(
        names.group(arm),
        x,
        numbers[:, 0],
        numbers[:, 1],
        numbers[:, 2],
        places.index(chosen) if chosen in places else None,
        path in tuning.edges(arm),
        style,
    )

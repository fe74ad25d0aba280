"""Which of the lab's measures a write-up's layer numbers are: the one that fits them best.

A write-up that prints "gradients" by layer seldom says of what. Every layer measure that was taken is compared with the
printed numbers, at the same layers and step; the one that is closest, by the median factor between printed and
measured, is named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gradlab.analysis.claims.numbers import Comparison, compare_numbers
from gradlab.analysis.formatting import times
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules.prediction import predict_seed
from gradlab.spec.metric import Metric

FEWEST = 2
"""Numbers below which nothing is said: one number fits too much."""


@dataclass(frozen=True)
class Fit:
    """How closely a measure fits printed numbers."""

    measure: str
    label: str
    """What people call the measure."""
    factor: float
    """Median over the numbers of max(printed/measured, measured/printed)."""
    consistent: int
    """How many of the numbers a new seed could have given."""
    numbers: int


@dataclass(frozen=True)
class Fits:
    """The measures in the order of how well they fit the layer numbers that were printed as one quantity."""

    declared: str
    """The measure under which the study lists the numbers."""
    step: int | str | None
    best: tuple[Fit, ...]

    @property
    def sentence(self) -> str:
        """Which measure the numbers are, in words."""
        first = self.best[0]
        own = next((fit for fit in self.best if fit.measure == self.declared), None)
        when = "at initialization" if self.step == "start" else "after training"
        fits = f"{first.consistent} of {first.numbers} within a new seed's range, typically {times(first.factor)} apart"
        text = f"The {first.numbers} published layer numbers {when} fit {first.label} (`{first.measure}`) best: {fits}"
        rival = own if own is not None and own is not first else next(iter(self.best[1:]), None)
        if rival is None:
            return f"{text}."
        return f"{text}; {rival.label}: {rival.consistent} of {rival.numbers}, {times(rival.factor)} apart."


def fit_measures(measured: Measured) -> tuple[Fits, ...]:
    """For each layer quantity of which numbers were published: all measures of the same kind, the best fit first."""
    families: dict[tuple[str, int | str | None], list[Comparison]] = {}
    for row in compare_numbers(measured):
        if row.tested and row.at.layer is not None and row.group in measured.group_names:
            families.setdefault((row.metric, row.at.step), []).append(row)
    found = []
    for (declared, step), rows in families.items():
        like = measured.metric(declared)
        rivals = [name for name in measured.measures if _comparable(measured.metric(name), like)]
        fits = [fit for name in rivals if (fit := _fit(measured, name, rows))]
        if len(rows) >= FEWEST and len(fits) > 1:
            found.append(Fits(declared, step, tuple(sorted(fits, key=lambda fit: fit.factor))))
    return tuple(found)


def _comparable(metric: Metric, declared: Metric) -> bool:
    """Sizes with sizes; what a forward pass leaves with its like, everything else with the rest."""
    return metric.kind == declared.kind and metric.on_logs and metric.forward == declared.forward


def _fit(measured: Measured, measure: str, rows: Sequence[Comparison]) -> Fit | None:
    factors, consistent = [], 0
    metric = measured.metric(measure)
    for row in rows:
        sample = measured.sample(measure, row.group, row.at)
        prediction = predict_seed(metric, sample)
        consistent += prediction is not None and row.published.overlaps(prediction.low, prediction.high)
        known = [value for value in sample.known if math.isfinite(value)]
        if not known:
            return None
        factors.append(_apart(median(known), row.published.value))
    return Fit(measure, metric.label, median(factors), consistent, len(rows))


def _apart(measured: float, printed: float) -> float:
    """How many times larger one is than the other; infinite if just one of them is 0."""
    low, high = sorted((abs(measured), abs(printed)))
    return 1.0 if low == high else high / low if low else math.inf

"""Published numbers beside measured ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.analysis.sample import divided
from gradlab.analysis.summary import summarize
from gradlab.spec.metric import Metric
from gradlab.spec.place import At


@dataclass(frozen=True)
class Beside:
    """One published number and what was measured in its place."""

    group: str
    metric: str
    at: At
    published: float
    measured: Estimate

    @property
    def inside_seeds(self) -> bool | None:
        """Whether the published number lies between the smallest and the largest seed."""
        m = self.measured
        return None if m.smallest is None or m.largest is None else m.smallest <= self.published <= m.largest


def beside(measured: Measured) -> tuple[Beside, ...]:
    """Every published number of the study, in its order; those of claims first."""
    rows: list[Beside] = []
    study = measured.study
    for claim in study.claims:
        plain = claim.metric and "/" not in claim.metric and not claim.compares and claim.at.layer != "all"
        if plain and claim.metric and claim.published is not None and isinstance(claim.arms, str):
            rows += _rows(measured, claim.metric, claim.arms, claim.at, claim.published)
        if claim.metric and claim.op == "ratio" and isinstance(claim.arms, tuple) and len(claim.arms) == 2:
            rows += _ratio(measured, claim.metric, claim.arms, claim.at, claim.published)
    for entry in study.published:
        rows += _rows(measured, entry.metric, entry.arms, entry.at, entry.value)
    unique = {(row.group, row.metric, str(row.at)): row for row in rows}
    return tuple(unique.values())


def _ratio(
    measured: Measured, metric: str, arms: tuple[str, ...], at: At, value: float | tuple[float, ...] | None
) -> Iterator[Beside]:
    """First arm over second, seed by seed."""
    if not isinstance(value, float) or not set(arms) <= set(measured.group_names) or isinstance(at.layer, tuple):
        return
    ratio = divided(*(measured.sample(metric, arm, at) for arm in arms))
    yield Beside(f"{arms[0]} / {arms[1]}", metric, at, value, summarize(Metric.of(metric, "quotient"), ratio))


def _rows(measured: Measured, metric: str, group: str, at: At, value: float | tuple[float, ...]) -> Iterator[Beside]:
    if group not in measured.group_names:
        return
    values = value if isinstance(value, tuple) else (value,)
    for place, number in zip(at.places(), values, strict=False):
        yield Beside(group, metric, place, number, measured.summary(metric, group, place))

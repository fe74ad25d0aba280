"""Published numbers against measured ones: is the number what a new seed of ours could have given?

A sentence and its number are judged apart. A number is *consistent* if some value that rounds to what was printed lies
inside the 95 % prediction interval of one more seed (`rules.prediction`): the write-ups trained one network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from gradlab.analysis.claims.sides import instances
from gradlab.analysis.claims.values import Side, sample_of_side
from gradlab.analysis.estimate import Estimate
from gradlab.analysis.formatting import number, where
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules.prediction import Prediction, predict_seed
from gradlab.analysis.sample import Sample, divided
from gradlab.analysis.summary import summarize
from gradlab.errors import StudyError
from gradlab.spec.claims import BEST, Claim
from gradlab.spec.metric import Metric
from gradlab.spec.place import At
from gradlab.spec.published import Origin, Stated, list_stated
from gradlab.spec.selection import chosen, list_contenders

Match = Literal["consistent", "not consistent", "not settled", "not tested"]


@dataclass(frozen=True)
class Comparison:
    """One published number and what was measured in its place."""

    group: str
    metric: str
    at: At
    published: Stated
    measured: Estimate
    prediction: Prediction | None
    origin: Origin
    note: str | None = None
    tested: bool = True
    """False: the budget was reduced or the set-up changed, so that the numbers are of another experiment."""
    called: str = ""
    """What people call the group."""
    label: str = ""
    """What people call the metric."""

    @property
    def what(self) -> str:
        """Metric and place in words."""
        return where(self.label or self.metric, self.at)

    @property
    def outcome(self) -> Match:
        """Whether a new seed could have given the published number."""
        p = self.prediction
        if not self.tested:
            return "not tested"
        if p is None:
            return "not settled"
        return "consistent" if self.published.overlaps(p.low, p.high) else "not consistent"

    @property
    def expected(self) -> str:
        """The prediction interval in words."""
        p = self.prediction
        return "fewer than 3 seeds" if p is None else f"{number(p.low, 3)} … {number(p.high, 3)}"

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        p = self.prediction
        return {
            "of": self.group,
            "metric": where(self.metric, self.at),
            "published": self.published.text,
            "from": self.origin,
            "measured": self.measured.median,
            "new_seed": None if p is None else [p.low, p.high],
            "outcome": self.outcome,
            "note": self.note,
        }


def compare_numbers(measured: Measured) -> tuple[Comparison, ...]:
    """Every published number of the study, those of claims first; the same place from the same source once."""
    found: tuple[Comparison, ...] = measured.remember("numbers", _compare_all)
    return found


def _compare_all(measured: Measured) -> tuple[Comparison, ...]:
    found = [row for claim in measured.study.claims for row in numbers_of_claim(measured, claim)]
    as_published = not measured.study.changed
    for entry in measured.study.published:
        if entry.arms not in measured.group_names:
            continue
        for place, stated in zip(entry.at.places(), list_stated(entry.value), strict=True):
            sample = measured.sample(entry.metric, entry.arms, place)
            metric = measured.metric(entry.metric)
            row = _compare(metric, sample, entry.arms, place, stated, entry.origin, entry.note)
            before = entry.metric == "initial_loss" or place.step == "start"
            tested = as_published and (before or not measured.plan.quick)
            found.append(replace(row, tested=tested, called=measured.names.group(entry.arms)))
    unique = {(row.group, row.metric, str(row.at), row.origin): row for row in found}
    return tuple(unique.values())


def numbers_of_claim(measured: Measured, claim: Claim) -> tuple[Comparison, ...]:
    """The published numbers that belong to a claim's sentence."""
    if claim.published is None or claim.metric is None or claim.effects is not None:
        return ()
    groups = [planned.group for planned in measured.plan.groups]
    try:
        rows = [own for own, _ in list_contenders(claim, groups)] if claim.op in BEST else chosen(claim, groups)
    except StudyError:  # a reduced study lacks the groups
        return ()
    tested = not measured.study.changed and (claim.budget == "any" or not measured.plan.quick)
    found = (row for sides in instances(measured, claim, rows) for row in _of_sides(measured, claim, sides))
    return tuple(replace(row, tested=tested) for row in found)


def _of_sides(measured: Measured, claim: Claim, sides: list[Side]) -> Iterator[Comparison]:
    """One number of one side or of the ratio of two; else one number per side."""
    stated = list_stated(claim.published)
    metric = measured.metric(str(claim.metric))
    origin: Origin = claim.origin or "text"
    samples = [sample_of_side(measured, metric.name, side) for side in sides]
    if len(stated) == 1 and claim.compares and len(sides) == 2:
        label = f"{sides[0].label} / {sides[1].label}"
        ratio = divided(*samples)
        quotient = Metric.of(metric.name, "quotient", label=metric.label)
        yield _compare(quotient, ratio, label, At(), stated[0], origin, claim.note)
        return
    each = stated if len(stated) == len(sides) else stated[:1] * len(sides)
    for side, sample, one in zip(sides, samples, each, strict=True):
        label = side.name if len(side.groups) > 1 else side.groups[0]
        row = _compare(metric, sample, label, side.at, one, origin, claim.note)
        yield replace(row, called=measured.names.group(label))


def _compare(
    metric: Metric, sample: Sample, label: str, at: At, stated: Stated, origin: Origin, note: str | None
) -> Comparison:
    place = At(step=at.step, layer=at.layer) if not isinstance(at.layer, tuple) else at
    found = summarize(metric, sample)
    prediction = predict_seed(metric, sample)
    return Comparison(
        label, metric.name, place, stated, found, prediction, origin, note, called=label, label=metric.label
    )

"""Published numbers against measured ones: is the number what a new seed of ours could have given?

A sentence and its number are judged apart. A number is *consistent* if some value that rounds to what was printed lies
inside the 95 % prediction interval of one more seed (`rules.prediction`): the write-ups trained one network. Where
that interval, or the precision of what was printed, leaves hardly any number outside, the comparison *says little*.
Numbers of other data or another method are *not comparable*: the study says so, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from gradlab.analysis.claims.reading import Side, against, instances, sample_of_side
from gradlab.analysis.estimate import Estimate, where
from gradlab.analysis.measured import Measured, summarize
from gradlab.analysis.rules.prediction import FEWEST, Prediction, predict_seed, says_little
from gradlab.analysis.sample import Sample, divided, subtracted
from gradlab.errors import StudyError
from gradlab.spec.claims import BEST, At, Claim, Origin, Stated, list_stated
from gradlab.spec.metric import Metric
from gradlab.spec.selection import chosen, list_contenders
from gradlab.spec.study import Study
from gradlab.words import rounded

Match = Literal["consistent", "not consistent", "says little", "not settled", "not comparable", "not tested"]


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
    seeds: int
    """Seeds that have a number of their own."""
    planned: int
    copies: int = 0
    """Seeds that gave the same numbers as another, and so none of their own."""
    little: bool = False
    """Whether the interval, or what rounds to the printed number, leaves hardly any number outside."""
    note: str | None = None
    tested: bool = True
    """False: the budget was reduced or the set-up changed, so that the numbers are of another experiment."""
    incomparable: str | None = None
    """Why the published number cannot be compared with ours, by the study."""
    guessed: bool = False
    """Whether the write-up does not say which measure it is."""
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
        if self.incomparable is not None:
            return "not comparable"
        if not self.tested:
            return "not tested"
        if p is None:
            return "not settled"
        if not self.published.overlaps(p.low, p.high):
            return "not consistent"
        return "says little" if self.little else "consistent"

    @property
    def expected(self) -> str:
        """The prediction interval in words."""
        p = self.prediction
        if p is not None:
            return f"{rounded(p.low)} … {rounded(p.high)}"
        if self.seeds >= FEWEST:
            return f"only {self.seeds} of {self.planned} seeds"
        return f"fewer than {FEWEST} {'seeds that differ' if self.copies else 'seeds'}"

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
            "seeds": self.seeds,
            "seeds_planned": self.planned,
            "outcome": self.outcome,
            "not_comparable": self.incomparable,
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
            tested = as_published and (not _is_trained(metric, place) or not measured.plan.quick)
            called = measured.names.group(entry.arms)
            found.append(replace(row, tested=tested, called=called, guessed=entry.guessed))
    unique = {(row.group, row.metric, str(row.at), row.origin): row for row in found}
    why = _why_incomparable(measured.study)
    return tuple(replace(row, incomparable=why) for row in unique.values())


def _why_incomparable(study: Study) -> str | None:
    other = f"published for other data, not for {study.other_data}" if study.other_data else None
    return study.not_comparable or other


def _is_trained(metric: Metric, at: At) -> bool:
    return metric.name != "initial_loss" and at.step not in ("start", 0)


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
    why = _why_incomparable(measured.study)
    return tuple(replace(row, tested=tested, incomparable=why) for row in found)


def _of_sides(measured: Measured, claim: Claim, sides: list[Side]) -> Iterator[Comparison]:
    """One number of one side, or of two on the scale on which they are compared; else one number per side."""
    stated = list_stated(claim.published)
    metric = measured.metric(str(claim.metric))
    origin: Origin = claim.origin or "text"
    samples = [sample_of_side(measured, metric.name, side) for side in sides]
    if len(stated) == 1 and claim.compares and len(sides) == 2:
        logs = True if claim.op == "ratio" else None
        compared = against(measured, claim, *sides, logs=logs)
        if metric.on_logs if compared is None else compared[0].logs:
            between, sign, sample = Metric.of(metric.name, "quotient"), "/", divided(*samples)
        else:
            low, high = metric.bounds
            signed = Metric.of(metric.name, "signed")
            between, sign, sample = replace(signed, bounds=(low - high, high - low)), "−", subtracted(*samples)
        label = f"{sides[0].label} {sign} {sides[1].label}"
        trained = _is_trained(metric, sides[0].at)
        yield _compare(
            replace(between, label=metric.label), sample, label, At(), stated[0], origin, claim.note, trained=trained
        )
        return
    each = stated if len(stated) == len(sides) else stated[:1] * len(sides)
    for side, sample, one in zip(sides, samples, each, strict=True):
        label = side.name if len(side.groups) > 1 else side.groups[0]
        row = _compare(metric, sample, label, side.at, one, origin, claim.note)
        yield replace(row, called=measured.names.group(label))


def _compare(
    metric: Metric,
    sample: Sample,
    label: str,
    at: At,
    stated: Stated,
    origin: Origin,
    note: str | None,
    *,
    trained: bool | None = None,
) -> Comparison:
    place = At(step=at.step, layer=at.layer) if not isinstance(at.layer, tuple) else at
    prediction = predict_seed(metric, sample, trained=_is_trained(metric, at) if trained is None else trained)
    coarse = not (metric.on_logs and stated.low <= 0) and says_little(metric, stated.low, stated.high)
    return Comparison(
        label,
        metric.name,
        place,
        stated,
        summarize(metric, sample),
        prediction,
        origin,
        sum(low == high for low, high in sample.distinct),
        len(sample.ends),
        len(sample.copies),
        coarse or (prediction is not None and says_little(metric, prediction.low, prediction.high)),
        note,
        called=label,
        label=metric.label,
    )

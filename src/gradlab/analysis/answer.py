"""The answer to the study's question in one or two sentences, written from the numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gradlab.analysis.claims import judge
from gradlab.analysis.claims.verdict import Outcome, Verdict
from gradlab.analysis.collapse import collapse_of
from gradlab.analysis.comparison import Comparison, compare
from gradlab.analysis.formatting import interval, where
from gradlab.analysis.measured import Measured
from gradlab.analysis.ranking import ranked
from gradlab.analysis.telling import name_metric, tell, tell_two
from gradlab.spec.numerals import counted, rounded, written
from gradlab.spec.phrasing import capital
from gradlab.spec.study import Answers, Headline

MOST = 6
"""Groups that an answer names one by one."""
PREFERRED = ("test_accuracy", "test_loss", "validation_loss", "final_loss", "initial_loss")

BESIDES = ("last_loss", "collapsed", "diverged_step", "parameters", "flops", "seconds_per_epoch")
"""Metrics that answer nothing by themselves."""


def headline_of(measured: Measured) -> Headline | None:
    """What the study names as its headline, or the first of the usual metrics that exists."""
    if measured.study.headline is not None:
        return measured.study.headline
    for metric in PREFERRED:
        if metric in measured.metrics:
            return Headline(metric=metric)
    return next((Headline(metric=metric) for metric in measured.metrics if metric not in BESIDES), None)


@dataclass(frozen=True)
class Answer:
    """First a word, then sentences with the numbers."""

    word: str
    """Yes, No, Partly, Not settled, Not tested, or what the study says if its claims hold; empty if numbers answer."""
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join([f"{self.word}."] * bool(self.word) + list(self.sentences))


def answer(measured: Measured) -> Answer:
    """From the claims that the study's question hangs on; else every group's headline number."""
    counts = measured.counts()
    if measured.trials and counts["failed"] == len(measured.trials):
        return Answer("", (f"All {counts['failed']} trials failed: {next(iter(measured.errors()))}",))
    asked = measured.study.answers
    found = None if asked is None or measured.plan.quick else _from_claims(measured, asked)
    word, sentences = ("", describe_headline(measured)) if found is None else found
    lost = [f"{counted(counts[how], 'trial')} {how}" for how in ("diverged", "failed") if counts[how]]
    if lost:
        sentences = [*sentences, f"{' and '.join(lost)}."]
    return Answer(word, tuple(sentences))


def verdicts_of(measured: Measured) -> tuple[Verdict, ...]:
    """The verdicts on all claims, computed once."""
    found: tuple[Verdict, ...] = measured.remember("verdicts", judge)
    return found


def _from_claims(measured: Measured, asked: Answers) -> tuple[str, list[str]] | None:
    """The word and the claims' numbers; None if none of them was tested."""
    verdicts = verdicts_of(measured)
    chosen = [verdicts[number - 1] for number in asked.holds or asked.numbers]
    told = [sentence for verdict in chosen if (sentence := tell(measured, verdict))]
    if not told:
        return None
    outcomes = {verdict.outcome for verdict in chosen}
    word = _word(outcomes, asked.says) if asked.holds or outcomes <= {"not settled", "not tested"} else ""
    unsettled = [verdict for verdict in chosen if verdict.outcome == "not settled" and verdict.needs]
    if unsettled:
        open_ = max(unsettled, key=lambda verdict: verdict.needs or 0)
        told.append(f"Not settled: “{open_.claim.text}” (needs {open_.more}).")
    return word, told


def _word(outcomes: set[Outcome], says: str | None) -> str:
    """Yes (or what the study says then) if all claims hold, no if one does not and none does, partly if some do."""
    if outcomes == {"reproduced"}:
        return says or "Yes"
    if "not reproduced" in outcomes:
        no = "No" if says is None else "Not shown"
        return "Partly" if outcomes & {"reproduced", "direction only"} else no
    if outcomes <= {"reproduced", "direction only"}:
        return "Partly"
    return "Not settled" if "not settled" in outcomes else "Not tested"


def _tell_course(measured: Measured, headline: Headline) -> str | None:
    """Where the curve of a single run begins and ends; None if there is none, or several."""
    curves = measured.curve(headline.metric, measured.group_names[0])
    if len(curves) != 1 or headline.at.layer is not None:
        return None
    ((steps, values),) = curves
    if len(values) < 2 or not np.isfinite(values[[0, -1]]).all():
        return None
    verb = "falls" if values[-1] < values[0] else "rises" if values[-1] > values[0] else "goes"
    what = f"the {name_metric(measured.metric(headline.metric))} {verb}"
    return f"{capital(what)} from {rounded(values[0])} to {rounded(values[-1])} in {steps[-1] - steps[0] + 1:,} steps."


def describe_headline(measured: Measured) -> list[str]:
    """Every group's number, then each other group against the first."""
    headline = headline_of(measured)
    if headline is None:
        return ["Nothing was measured that could answer the question."]
    groups, names = measured.group_names, measured.names
    if len(groups) == 2 and not _mixed(measured, headline):
        told = tell_two(measured, headline.metric, headline.at, groups[0], groups[1])
        if told is not None:
            return [told]
    if len(groups) == 1 and (told := _tell_course(measured, headline)) is not None:
        return [told]
    shown, seeds, metric = groups, measured.seeds_done, measured.metric(headline.metric)
    place = "" if headline.at.layer is None else f", {where('', headline.at)[2:]}"
    first = f"{capital(name_metric(metric))}{place}: "
    if len(groups) > MOST and headline.at.layer is None and (order := ranked(measured, headline.metric)):
        shown = (order[0], order[-1])
        first = f"{capital(name_metric(metric))} of {len(groups)} groups, best and worst: "
    if len(groups) == 1:
        first = f"{first.removesuffix(': ')} is {_told(measured, headline, groups[0])}"
    else:
        first += "; ".join(f"{names.group(name)} {_told(measured, headline, name)}" for name in shown[:MOST])
    if len(shown) > MOST:
        first += f"; and {len(shown) - MOST} more"
    few = all(measured.summary(headline.metric, name, headline.at).bounded for name in shown[:MOST])
    how = f"median and {'range' if few else '95 % interval'} over {seeds} seeds" if seeds > 1 else "1 seed: no interval"
    sentences = [f"{first} ({how})."]
    if len(groups) <= 4:
        for other in groups[1:]:
            comparison = compare(measured, headline.metric, groups[0], other, headline.at)
            if comparison is not None:
                said = replace(comparison, a=names.group(comparison.a), b=names.group(comparison.b))
                sentences.append(against(said))
    return sentences


def _mixed(measured: Measured, headline: Headline) -> bool:
    """Whether a group is a mixture of collapsed and healthy networks, which no median describes."""
    found = [collapse_of(measured, name) for name in measured.group_names]
    return measured.metric(headline.metric).kind == "accuracy" and any(each and each.mixed for each in found)


def _told(measured: Measured, headline: Headline, group: str) -> str:
    """Mean and interval; of a mixture of collapsed and healthy networks, which no mean describes, share and median."""
    if measured.metric(headline.metric).kind == "accuracy":
        found = collapse_of(measured, group)
        if found is not None and found.mixed:
            return f"{found.share.count} of {found.share.n} at chance, median {written(found.median)}"
    return interval(measured.summary(headline.metric, group, headline.at))


def against(c: Comparison) -> str:
    """One comparison as a sentence, with how sure it is."""
    d, r = c.difference, c.ratio
    paired = f"paired over {_seeds(c.n)}" + (f", {c.unknown} of them without a number" if c.unknown else "")
    settled = "" if c.settled else _unsettled(c)
    if c.identical:
        return capital(f"{c.b} and {c.a} do not differ at all, {paired}.")
    if r is None or r.value is None:
        sure = "" if d.bounded else f" (95 %: {written(d.low)} to {written(d.high)})"
        return capital(f"{c.b} minus {c.a}: {written(d.value)}{sure}, {paired}{settled}.")
    lower = r.value < 1
    factor, low, high = r.value, r.low, r.high
    if lower:
        factor, low, high = _inverse(r.value), _inverse(r.high), _inverse(r.low)
    sure = "" if r.bounded else f" (95 %: {written(low)} to {written(high)})"
    zeros = f"; {c.zero_pairs} pairs with an exact zero on one side" if c.zero_pairs else ""
    way = "lower" if lower else "higher"
    return capital(f"{c.b} is {written(factor)} times {way} than {c.a}{sure}, {paired}{zeros}{settled}.")


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"


def _unsettled(c: Comparison) -> str:
    if c.n < 3:
        return "; not settled, because fewer than 3 pairs settle nothing"
    return f"; not settled, because the interval contains {0 if c.ratio is None else 1}"


def _inverse(value: float | None) -> float:
    return math.inf if not value else 1 / value

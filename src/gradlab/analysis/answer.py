"""The answer to the study's question in one or two sentences, written from the numbers."""

from __future__ import annotations

import math

from gradlab.analysis.collapse import collapse_of
from gradlab.analysis.comparison import Comparison, compare
from gradlab.analysis.formatting import interval, number, times, where
from gradlab.analysis.measured import Measured
from gradlab.analysis.ranking import ranked
from gradlab.spec.study import Headline

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


def answer(measured: Measured) -> str:
    """First every group's number, then each other group against the first."""
    headline = headline_of(measured)
    counts = measured.counts()
    if measured.trials and counts["failed"] == len(measured.trials):
        return f"All {counts['failed']} trials failed: {next(iter(measured.errors()))}"
    if headline is None:
        return "Nothing was measured that could answer the question."
    groups = measured.group_names
    seeds = measured.seeds_done
    shown = groups
    first = f"{where(headline.metric, headline.at)}: "
    if len(groups) > MOST and headline.at.layer is None and (order := ranked(measured, headline.metric)):
        shown = (order[0], order[-1])
        first = f"{headline.metric} of {len(groups)} groups, best and worst: "
    first += "; ".join(f"{name} {_told(measured, headline, name)}" for name in shown[:MOST])
    if len(shown) > MOST:
        first += f"; and {len(shown) - MOST} more"
    few = all(measured.summary(headline.metric, name, headline.at).bounded for name in shown[:MOST])
    how = (
        f"median and {'range' if few else '95 % interval'} over {seeds} seeds" if seeds > 1 else "one seed: no interval"
    )
    sentences = [f"{first} ({how})."]
    if 2 <= len(groups) <= 4:
        for other in groups[1:]:
            comparison = compare(measured, headline.metric, groups[0], other, headline.at)
            if comparison is not None:
                sentences.append(against(comparison))
    if counts["diverged"] or counts["failed"]:
        sentences.append(f"{counts['diverged']} trials diverged, {counts['failed']} failed.")
    return " ".join(sentences)


def _told(measured: Measured, headline: Headline, group: str) -> str:
    """Mean and interval; of a mixture of collapsed and healthy networks, which no mean describes, share and median."""
    if measured.metric(headline.metric).kind == "accuracy":
        found = collapse_of(measured, group)
        if found is not None and found.mixed:
            return f"{found.share.count} of {found.share.n} at chance, median {number(found.median, 3)}"
    return interval(measured.summary(headline.metric, group, headline.at))


def against(c: Comparison) -> str:
    """One comparison as a sentence, with how sure it is."""
    d, r = c.difference, c.ratio
    paired = f"paired over {_seeds(c.n)}" + (f", {c.unknown} of them without a number" if c.unknown else "")
    settled = "" if c.settled else _unsettled(c)
    if c.identical:
        return f"{c.b} and {c.a} do not differ at all, {paired}."
    if r is None or r.value is None:
        sure = "" if d.bounded else f", 95 % interval [{number(d.low, 3)}, {number(d.high, 3)}]"
        return f"{c.b} minus {c.a}: {number(d.value, 3)}{sure}, {paired}{settled}."
    lower = r.value < 1
    factor, low, high = r.value, r.low, r.high
    if lower:
        factor, low, high = _inverse(r.value), _inverse(r.high), _inverse(r.low)
    sure = "" if r.bounded else f" (95 % interval {times(low)} to {times(high)})"
    zeros = f"; {c.zero_pairs} pairs with an exact zero on one side" if c.zero_pairs else ""
    return f"{c.b} is {times(factor)} {'lower' if lower else 'higher'} than {c.a}{sure}, {paired}{zeros}{settled}."


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"


def _unsettled(c: Comparison) -> str:
    if c.n < 3:
        return " – not settled: fewer than 3 pairs settle nothing"
    return f" – not settled: the interval contains {0 if c.ratio is None else 1}"


def _inverse(value: float | None) -> float:
    return math.inf if not value else 1 / value

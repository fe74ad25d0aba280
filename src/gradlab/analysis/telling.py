"""A claim's numbers in one sentence, as a science writer would print them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gradlab.analysis.claims.reading import Reading
from gradlab.analysis.claims.sides import against, instances, name_groups
from gradlab.analysis.claims.values import Side
from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.spec.claims import BEST, Claim
from gradlab.spec.metric import Metric
from gradlab.spec.numerals import counted, written
from gradlab.spec.place import At, describe_layer
from gradlab.spec.selection import chosen

MOST = 4
"""Numbers that one sentence lists; of more, the first and the last."""
SAME = 0.005
"""Ratios closer to 1 than this are not spelled out."""
VERBS = {
    "initial_loss": ("starts at a loss of", "at"),
    "final_loss": ("ends at a loss of", "at"),
    "collapsed": ("collapses in a share of", ""),
    "seconds_per_epoch": ("needs seconds per epoch:", ""),
    "epochs_to_target": ("reaches the target after epochs:", ""),
    "steps_to_target": ("reaches the target after steps:", ""),
}
"""Metric -> how a network comes to its number, and the word before a second one's."""


def tell(measured: Measured, verdict: Verdict) -> str:
    """The numbers that a verdict rests on; empty where there are none."""
    claim = verdict.claim
    if not verdict.readings or claim.metric is None:
        return ""
    metric = measured.metric(claim.metric)
    if claim.effects is not None:
        return _tell_effects(verdict, metric)
    rows = chosen(claim, [planned.group for planned in measured.plan.groups])
    what = _subject(measured, metric, [group for row in rows for group in row])
    if claim.op in BEST:
        return _tell_best(claim, verdict, what)
    if claim.op in ("ordered", "decreasing", "increasing"):
        return _tell_row(verdict.readings[:-1], metric, what)
    if claim.compares:
        return _tell_pairs(measured, verdict, metric, what, instances(measured, claim, rows))
    place = "" if claim.at.layer in (None, "all") else f", {describe_layer(claim.at.layer)}"
    return _tell_row(verdict.readings, metric, f"{what}{place}")


def tell_two(measured: Measured, metric: str, at: At, a: str, b: str) -> str | None:
    """Two groups and how far they are apart; None if there is no number in either."""
    claim = Claim(text="headline", metric=metric, arms=(a, b), op=">")
    said = name_groups(measured, [a, b])
    first, second = (Side((name,), at, None, said[name]) for name in (a, b))
    found = against(measured, claim, first, second)
    if found is None:
        return None
    rule, reading = found
    known = measured.metric(metric)
    told = _tell_pair(measured, first, second, reading, known, _subject(measured, known, [a, b]))
    lost = f" {counted(reading.unknown, 'pair')} without a number." if reading.unknown else ""
    return told + lost + ("" if reading.estimate.excludes(rule.nothing) else " That is not settled.")


def name_metric(metric: Metric) -> str:
    """What a metric is called in a sentence."""
    return "loss" if metric.name == "final_loss" else metric.label


def _tell_effects(verdict: Verdict, metric: Metric) -> str:
    assert verdict.claim.effects is not None
    first, second = (reading.estimate.value for reading in verdict.readings[:2])
    a, b = verdict.claim.effects
    return f"Variance of {name_metric(metric)} between levels: {a} {written(first, 2)}, {b} {written(second, 2)}."


def _subject(measured: Measured, metric: Metric, groups: Sequence[str]) -> str:
    """What is measured, and the levels that all groups of a claim share and others of the study do not."""
    settings = [measured.entries[name].group.settings for name in groups]
    names = measured.names
    shared = [path for path in names.axes if len({str(own.get(path)) for own in settings}) == 1 and path in settings[0]]
    levels = ", ".join(names.level(path, settings[0][path]) for path in shared) if not names.arms else ""
    return f"{_capital(name_metric(metric))}{f' ({levels})' if levels else ''}"


def _tell_best(claim: Claim, verdict: Verdict, what: str) -> str:
    *each, _ = verdict.readings
    own, other = each[:-1], each[-1]
    best = (max if claim.op == "highest" else min)(own, key=lambda reading: reading.estimate.value or 0.0)
    numbers = f"{best.label} {_value(best.estimate)}, {other.label} {_value(other.estimate)}"
    return f"{what}: {numbers} (medians of {counted(best.estimate.n, 'seed')})."


def _tell_row(readings: Sequence[Reading], metric: Metric, what: str) -> str:
    """Numbers of several groups (or layers) in their order, or of one with its interval."""
    n = readings[0].estimate.n
    flag = metric.kind == "flag"
    if len(readings) == 1:
        (only,) = readings
        interval = _interval(only.estimate)
        sure = f" ({interval}, {counted(n, 'seed')})" if interval else f" ({counted(n, 'seed')})"
        if flag:
            return f"{what}: {only.label} {only.estimate.count} of {only.estimate.n}."
        return f"{what}: {only.label} {_value(only.estimate)}{sure}."
    shown = readings if len(readings) <= MOST else (readings[0], readings[-1])
    between = ", " if len(readings) <= MOST else " … "
    if flag:
        told = between.join(f"{reading.label} {reading.estimate.count} of {reading.estimate.n}" for reading in shown)
        return f"{what}: {told}."
    told = between.join(f"{reading.label} {_value(reading.estimate)}" for reading in shown)
    return f"{what}: {told} (medians of {counted(n, 'seed')})."


def _tell_pairs(
    measured: Measured, verdict: Verdict, metric: Metric, what: str, found: Sequence[Sequence[Side]]
) -> str:
    if len(found) == 1:
        return _tell_pair(measured, found[0][0], found[0][1], verdict.readings[0], metric, what)
    pairs = list(zip(verdict.readings, found, strict=True))
    shown = pairs if len(pairs) <= MOST else (pairs[0], pairs[-1])
    between = "; " if len(pairs) <= MOST else " … "
    by_layer = len({(a.groups, b.groups) for a, b, *_ in found}) == 1
    told = between.join(
        f"{describe_layer(a.at.layer) if by_layer else reading.label} {_apart(reading)}" for reading, (a, *_) in shown
    )
    whose = f", {_said(found[0][0])} against {_said(found[0][1])}" if by_layer else ""
    return f"{what}{whose}: {told} ({counted(pairs[0][0].estimate.n, 'seed')})."


def _tell_pair(measured: Measured, first: Side, second: Side, reading: Reading, metric: Metric, what: str) -> str:
    """Two groups, the better one first, or two layers of one."""
    if first.groups == second.groups or first.over is not None or len(first.groups) > 1:
        whose = f" of {_said(first)}" if first.groups == second.groups else ""
        return f"{what}{whose}, {reading.label}: {_apart(reading)} {_sure(reading)}."
    if metric.sign and _is_above(reading) != (metric.sign > 0):
        first, second, reading = second, first, _turned(reading)
    values = [written(measured.summary(metric.name, side.groups[0], side.at).value) for side in (first, second)]
    place = "" if first.at.layer is None else f" at {describe_layer(first.at.layer)}"
    if measured.names.arms and (metric.name in VERBS or metric.of_outcome):
        verb, again = VERBS.get(metric.name) or _verb(metric)
        again = f"{again} " if again else ""
        return (
            f"{_capital(_said(first))} {verb} {values[0]}{place}, {_said(second)} {again}{values[1]}: "
            f"{_apart(reading)} {_sure(reading)}."
        )
    return (
        f"{what}{place}: {_said(first)} {values[0]}, {_said(second)} {values[1]}, {_apart(reading)} {_sure(reading)}."
    )


def _is_above(reading: Reading) -> bool:
    value = reading.estimate.value
    return value is not None and value >= (1 if reading.ratio else 0)


def _turned(reading: Reading) -> Reading:
    """Second against first."""
    e = reading.estimate
    ends = (e.value, e.high, e.low)
    value, low, high = (_inverse(x) if reading.ratio else None if x is None else -x for x in ends)
    return replace(reading, estimate=replace(e, value=value, low=low, high=high))


def _inverse(value: float | None) -> float | None:
    return None if value is None else 1 / value if value else math.inf


def _sure(reading: Reading) -> str:
    interval = _interval(reading.estimate, flip=not _is_above(reading) and reading.ratio)
    seeds = counted(reading.estimate.n, "seed")
    return f"({interval}, {seeds})" if interval else f"({seeds})"


def _said(side: Side) -> str:
    """A side without its layer."""
    return side.name or side.groups[0]


def _verb(metric: Metric) -> tuple[str, str]:
    what = f"{'an' if metric.label[:1].lower() in 'aeiou' else 'a'} {metric.label}"
    return (f"reaches {what} of", "") if metric.kind == "accuracy" else (f"ends at {what} of", "at")


def _apart(reading: Reading) -> str:
    """`5.3 times higher`, `0.84 higher`."""
    value = reading.estimate.value
    if value is None:
        return "no number"
    if reading.ratio:
        if abs(value - 1) < SAME:
            return "about the same"
        factor = value if value >= 1 else 1 / value if value else math.inf
        return f"{written(factor)} times {'higher' if value >= 1 else 'lower'}"
    return f"{written(abs(value))} {'higher' if value >= 0 else 'lower'}"


def _value(e: Estimate) -> str:
    return written(e.value)


def _interval(e: Estimate, *, flip: bool = False) -> str:
    if e.low is None or e.high is None or e.bounded:
        return ""
    low, high = e.low, e.high
    if flip:
        low, high = (math.inf if end == 0 else 1 / end for end in (high, low))
    elif (e.value or 0) < 0:
        low, high = -high, -low
    return f"95 %: {written(low)} to {written(high)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

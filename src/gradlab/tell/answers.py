"""The answer to a study's question in one or two sentences, and a claim's numbers in one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gradlab.analysis.claims import TOO_SMALL, judge
from gradlab.analysis.claims.kinds import theory_says
from gradlab.analysis.claims.reading import Reading, Side, against, instances, name_groups
from gradlab.analysis.claims.verdict import Outcome, Verdict
from gradlab.analysis.comparison import Comparison, collapse_of, compare, ranked
from gradlab.analysis.estimate import Estimate, interval, where
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules.base import FEWEST
from gradlab.analysis.tasks import over_tasks
from gradlab.analysis.why import choose_pair
from gradlab.errors import with_article
from gradlab.spec.claims import ALONG_AN_AXIS, BEST, At, Claim
from gradlab.spec.metric import Metric
from gradlab.spec.naming import name_setting, say_levels
from gradlab.spec.selection import chosen
from gradlab.spec.study import Answers, Headline
from gradlab.words import capital, counted, describe_layer, join, listed, rounded, written

# A claim's numbers in one sentence, as a science writer would print them.
#
# At 30 layers with default init, test accuracy is 0.953 with the skip and 0.114 without the skip: 0.839 higher
# (95 %: 0.589 to 0.845, 10 seeds).

MOST_NUMBERS = 4
"""Numbers that one sentence lists; of more, the smallest and the largest."""
SAME, CLOSE = 0.005, 0.1
"""Ratios closer to 1 than this are not spelled out; closer than that, they are given in percent."""
SAME_MEDIAN = "the same at the median"
"""How far two sides are apart whose ratio is 1 but not known well enough to call them the same."""
VERBS = {"initial_loss": ("starts at a loss of", "at"), "final_loss": ("ends at a loss of", "at")}
"""Metric -> how a network comes to its number, and the word before a second one's."""
WAYS = (" higher", " lower")
HAPPENS = {
    "collapsed": ("networks collapse", "collapses", " to chance"),
    "diverged": ("networks diverge", "diverges", ""),
}
"""Metric that is 0 or 1 -> what happens where it is 1: to several networks, to one, and how it ends."""


@dataclass(frozen=True)
class _Scene:
    """What all groups of a claim share, and how each is told from the others."""

    measured: Measured
    metric: Metric
    groups: tuple[str, ...]

    @property
    def apart(self) -> tuple[str, ...]:
        """The paths in which these groups differ."""
        settings = [self.measured.entries[name].group.settings for name in self.groups]
        return tuple(p for p in self.measured.names.axes if len({str(own.get(p)) for own in settings}) > 1)

    @property
    def opening(self) -> str:
        """What these groups share and others of the study do not: `At 30 layers, `."""
        names = self.measured.names
        if names.arms:
            return ""
        shared = [path for path in names.axes if path not in self.apart]
        words = say_levels(names, self.groups[0], shared)
        return f"{capital(words)}, " if words else ""

    def begin(self, what: str) -> str:
        """The beginning of a sentence about something."""
        return f"{self.opening}{what}" if self.opening else capital(what)

    @property
    def noun(self) -> str:
        """What is measured, inside a sentence."""
        label = self.metric.label.replace(", ", " ")
        return f"the {label}" if self.metric.kind == "loss" else label

    def say(self, group: str) -> str:
        """Where the number of a group was measured: `without the skip`, `for uniform init`."""
        names = self.measured.names
        if names.arms:
            return f"for {names.group(group)}"
        return say_levels(names, group, self.apart) or f"for {names.group(group)}"

    def sides(self, found: Sequence[Sequence[Side]]) -> Mapping[str, str]:
        """Label of a reading -> where it was measured."""
        sides = [side for row in found for side in row]
        groups, layers = {side.groups for side in sides}, {side.at.layer for side in sides}
        told = {}
        for side in sides:
            words = [self.say(side.groups[0])] if len(groups) > 1 and len(side.groups) == 1 else []
            words += [f"at {describe_layer(side.at.layer)}"] if len(layers) > 1 else []
            told[side.label] = " ".join(words)
        return told


def tell(measured: Measured, verdict: Verdict) -> str:
    """The numbers that a verdict rests on; empty where there are none."""
    claim = verdict.claim
    if not verdict.readings or claim.metric is None:
        return ""
    metric = measured.metric(claim.metric)
    if claim.effects is not None:
        return _tell_effects(verdict, metric)
    rows = chosen(claim, [planned.group for planned in measured.plan.groups])
    scene = _Scene(measured, metric, tuple(dict.fromkeys(group for row in rows for group in row)))
    if claim.op in BEST:
        return _tell_best(claim, verdict, scene)
    found = instances(measured, claim, rows)
    if claim.op in ("ordered", *ALONG_AN_AXIS):
        return _tell_order(verdict, scene, scene.sides(found))
    if claim.compares:
        return _tell_pairs(verdict, scene, found)
    return _tell_row(verdict.readings, scene, found)


def tell_two(measured: Measured, metric: str, at: At, a: str, b: str) -> str | None:
    """Two groups and how far they are apart; None if there is no number in either."""
    claim = Claim(text="headline", metric=metric, arms=(a, b), op=">")
    said = name_groups(measured, [a, b])
    first, second = (Side((name,), at, None, said[name]) for name in (a, b))
    found = against(measured, claim, first, second)
    if found is None:
        return None
    rule, reading = found
    told = _tell_pair(_Scene(measured, measured.metric(metric), (a, b)), first, second, reading)
    lost = f" {counted(reading.unknown, 'pair')} without a number." if reading.unknown else ""
    settled = reading.equal or reading.estimate.excludes(rule.nothing)
    return told + lost + ("" if settled else " That is not settled.")


def name_metric(metric: Metric) -> str:
    """What a metric is called by itself."""
    return "loss" if metric.name == "final_loss" else metric.label


def _tell_effects(verdict: Verdict, metric: Metric) -> str:
    assert verdict.claim.effects is not None
    first, second = (reading.estimate.value for reading in verdict.readings[:2])
    a, b = verdict.claim.effects
    return f"Variance of {name_metric(metric)} between levels: {a} {written(first, 2)}, {b} {written(second, 2)}."


def _tell_best(claim: Claim, verdict: Verdict, scene: _Scene) -> str:
    *each, _ = verdict.readings
    own, other = each[:-1], each[-1]
    best = (max if claim.op == "highest" else min)(own, key=lambda reading: reading.estimate.value or 0.0)
    labels = {label: group for group, label in name_groups(scene.measured, scene.groups).items()}
    first, second = (
        f"{rounded(reading.estimate.value)} {scene.say(labels[reading.label])}" for reading in (best, other)
    )
    return f"{scene.begin(scene.noun)} is {first}, against {second} ({_medians(best.estimate)})."


def _tell_order(verdict: Verdict, scene: _Scene, places: Mapping[str, str]) -> str:
    """Numbers along an axis, in its order, and which way they go: as a fact if it is shown, else of the medians."""
    readings = verdict.readings[:-1]
    values = [reading.estimate.value for reading in readings]
    known = [value for value in values if value is not None]
    steps = [b - a for a, b in pairwise(known)]
    verb = "falls" if all(s < 0 for s in steps) else "rises" if all(s > 0 for s in steps) else "goes up and down"
    along = f" with {name_setting(scene.apart[0])}" if len(scene.apart) == 1 else ""
    told = join([f"{rounded(r.estimate.value)} {places.get(r.label) or r.label}" for r in readings])
    what = scene.noun if verdict.outcome == "reproduced" else f"the median {scene.noun.removeprefix('the ')}"
    return f"{scene.begin(what)} {verb}{along}: {told} ({_medians(readings[0].estimate)})."


def _tell_row(readings: Sequence[Reading], scene: _Scene, found: Sequence[Sequence[Side]]) -> str:
    """Numbers of several groups or layers, or of one with its interval."""
    places, flag = scene.sides(found), scene.metric.kind == "flag"
    layers = {side.at.layer for row in found for side in row}
    place = f" at {describe_layer(*layers)}" if len(layers) == 1 and layers != {None} else ""
    shown = list(readings)
    if len(readings) > MOST_NUMBERS:
        ordered = sorted(readings, key=lambda reading: reading.estimate.value or 0.0)
        shown = [ordered[0], ordered[-1]]
    told = [
        f"{f'{r.estimate.count} of {r.estimate.n} seeds' if flag else rounded(r.estimate.value)}"
        f" {places.get(r.label, r.label)}".rstrip()
        for r in shown
    ]
    if flag:
        several, one, end = HAPPENS.get(
            scene.metric.name, (f"{scene.metric.label} happens", f"{scene.metric.label}", "")
        )
        what = f"{scene.measured.names.group(scene.groups[0])} {one}{end}" if _alone(scene) else f"{several}{end}"
        listed = f"between {join(told)}" if len(readings) > MOST_NUMBERS else join(told)
        return f"{scene.begin(what)} in {listed}."
    verb = "ranges from" if len(readings) > MOST_NUMBERS else "is"
    what = f"{scene.noun} of {scene.measured.names.group(scene.groups[0])}" if _alone(scene) else scene.noun
    listed = " to ".join(told) if len(readings) > MOST_NUMBERS else join(told)
    (first, *rest) = readings
    sure = f"({_medians(first.estimate)})" if rest else _sure(first)
    return f"{scene.begin(what)}{place} {verb} {listed} {sure}."


def _alone(scene: _Scene) -> bool:
    """Whether the sentence is about one named arm."""
    return scene.measured.names.arms and len(scene.groups) == 1


def _tell_pairs(verdict: Verdict, scene: _Scene, found: Sequence[Sequence[Side]]) -> str:
    if len(found) == 1:
        reading = verdict.readings[0]
        told = _tell_pair(scene, found[0][0], found[0][1], reading)
        if (expected := theory_says(scene.measured, verdict.claim, found[0])) is None:
            return told
        own = replace(reading, estimate=replace(reading.estimate, value=expected))
        return f"{told[:-1]}; theory predicts {_apart(own)}."
    pairs = list(zip(verdict.readings, found, strict=True))
    shown = pairs
    if len(pairs) > MOST_NUMBERS:
        ordered = sorted(pairs, key=lambda pair: pair[0].estimate.value or 0.0)
        shown = [ordered[0], ordered[-1]]
    between = " to " if len(pairs) > MOST_NUMBERS else ", "
    seeds = counted(pairs[0][0].estimate.n, "seed")
    (first, second, *_), names = found[0], scene.measured.names
    if len({(a.groups, b.groups) for a, b, *_ in found}) == 1:
        told = between.join(
            f"{rounded(reading.estimate.value)} ({describe_layer(a.at.layer)})" for reading, (a, *_) in shown
        )
        return f"In {_said(first)}, {scene.noun} is {told} times that of {_said(second)} ({seeds})."
    factor = _Scene(scene.measured, scene.metric, (first.groups[0], second.groups[0])).apart
    sides = {tuple(say_levels(names, side.groups[0], factor) for side in row[:2]) for row in found}
    if len(sides) == 1 and all(len(side.groups) == 1 for row in found for side in row) and not names.arms:
        blocks = [path for path in scene.apart if path not in factor]
        told = between.join(f"{_apart(r)} {say_levels(names, a.groups[0], blocks)}" for r, (a, *_) in shown)
        ((one, other),) = sides
        against = other.removeprefix("at ").removeprefix("with ")
        return f"{scene.begin(scene.noun)} {one}, compared with {against}, is {told} ({seeds})."
    told = between.join(f"{reading.label} {_apart(reading)}" for reading, _ in shown)
    return f"{scene.begin(scene.noun)}: {told} ({seeds})."


def _tell_pair(scene: _Scene, first: Side, second: Side, reading: Reading) -> str:
    """Two groups, the better one first, or two layers of one."""
    measured, metric = scene.measured, scene.metric
    if first.groups == second.groups and first.over is None and len(first.groups) == 1:
        whose = f"for {_said(first)}, " if measured.names.arms or not scene.opening else ""
        places = [describe_layer(side.at.layer) for side in (first, second)]
        far = _apart(reading)
        same = far in ("about the same", "equal to the last digit", SAME_MEDIAN)
        beyond = f"{far} in {places[0]} {'as' if same else 'than'}"
        return f"{scene.begin(f'{whose}{scene.noun} is {beyond} in {places[1]}')} {_sure(reading)}."
    if first.groups == second.groups or first.over is not None or len(first.groups) > 1:
        whose = f" of {_said(first)}" if first.groups == second.groups and measured.names.arms else ""
        return f"{scene.begin(scene.noun)}{whose}, {reading.label}: {_apart(reading)} {_sure(reading)}."
    if metric.sign and _is_above(reading) != (metric.sign > 0):
        first, second, reading = second, first, _turned(reading)
    values = [rounded(measured.summary(metric.name, side.groups[0], side.at).value) for side in (first, second)]
    place = "" if first.at.layer is None else f" at {describe_layer(first.at.layer)}"
    # names of a user's own, such as branches, keep their letters: they never begin a sentence
    if measured.names.arms and not measured.plan.own_code and (metric.name in VERBS or metric.of_outcome):
        verb, again = VERBS.get(metric.name) or _verb(metric)
        again = f"{again} " if again else ""
        beside = f"{_said(second)} {again}{values[1]}"
        far = _apart(reading)
        if far.endswith(WAYS):  # of which of the two it is said
            return f"{capital(_said(first))} {verb} {values[0]}{place}, {far} than {beside} {_sure(reading)}."
        return f"{capital(_said(first))} {verb} {values[0]}{place}, {beside}: {far} {_sure(reading)}."
    a, b = (f"{value} {scene.say(side.groups[0])}" for value, side in zip(values, (first, second), strict=True))
    return f"{scene.begin(scene.noun)}{place} is {a} and {b}: {_apart(reading)} {_sure(reading)}."


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


def _medians(e: Estimate) -> str:
    return f"medians of {counted(e.n, 'seed')}" if e.n > 1 else "1 seed"


def _sure(reading: Reading) -> str:
    e, seeds = reading.estimate, counted(reading.estimate.n, "seed")
    if e.low is None or e.high is None or e.bounded or reading.equal:
        return f"({seeds})"
    low, high, below = e.low, e.high, not _is_above(reading)
    if reading.ratio and e.value is not None and abs(e.value - 1) < CLOSE:  # in percent of the second, as `_apart`
        low, high = (100 * (1 - high), 100 * (1 - low)) if below else (100 * (low - 1), 100 * (high - 1))
        return f"(95 %: {written(low, 2)} % to {written(high, 2)} %, {seeds})"
    if reading.ratio and below:
        low, high = (math.inf if end == 0 else 1 / end for end in (high, low))
    elif (e.value or 0) < 0:
        low, high = -high, -low
    write = rounded if reading.ratio else written
    return f"(95 %: {write(low)} to {write(high)}, {seeds})"


def _said(side: Side) -> str:
    """A side without its layer."""
    return side.name or side.groups[0]


def _verb(metric: Metric) -> tuple[str, str]:
    what = with_article(metric.label)
    return (f"reaches {what} of", "") if metric.kind == "accuracy" else (f"ends at {what} of", "at")


def _apart(reading: Reading) -> str:
    """`5.3 times higher`, `0.84 higher`."""
    value = reading.estimate.value
    if value is None:
        return "no number"
    if reading.equal:
        return "equal to the last digit"
    if reading.ratio:
        if abs(value - 1) < SAME and not _is_told_apart(reading.estimate):
            return "about the same" if _is_narrow(reading.estimate) else SAME_MEDIAN
        if abs(value - 1) < CLOSE:
            return f"{written(100 * abs(value - 1), 2)} % {'higher' if value >= 1 else 'lower'}"
        factor = value if value >= 1 else 1 / value if value else math.inf
        return f"{rounded(factor)} times {'higher' if value >= 1 else 'lower'}"
    return f"{written(abs(value))} {'higher' if value >= 0 else 'lower'}"


def _is_told_apart(estimate: Estimate) -> bool:
    """Whether the interval of a ratio lies on one side of 1."""
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and not estimate.bounded and (low > 1 or high < 1)


def _is_narrow(estimate: Estimate) -> bool:
    """Whether a ratio is known well enough to call two sides the same."""
    low, high = estimate.low, estimate.high
    return (
        low is not None and high is not None and not estimate.bounded and 1 - low < CLOSE / 2 and high - 1 < CLOSE / 2
    )


# The answer to the study's question in one or two sentences, written from the numbers.

MOST_GROUPS = 6
"""Groups that an answer names one by one."""


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
        left = len(measured.plan.trials) - len(measured.trials)
        if measured.plan.of_table:
            return Answer("", ("No row has a number.",))
        others = f", so the other {left} were not begun" if left else ""
        return Answer("", (f"All {counts['failed']} trials failed{others}: {next(iter(measured.errors()))}",))
    asked = measured.study.answers or _only_claim(measured)
    found = None if asked is None or measured.plan.quick else _from_claims(measured, asked)
    if parts := judge_parts(measured):
        found = "", _tell_parts(parts)
    word, sentences = ("", describe_headline(measured)) if found is None else found
    ended = ("diverged",) if measured.plan.of_table else ("diverged", "failed")
    lost = [f"{counted(counts[how], 'trial')} {how}" for how in ended if counts[how]]
    if lost:
        sentences = [*sentences, f"{join(lost)}."]
    return Answer(word, tuple(sentences))


def _only_claim(measured: Measured) -> Answers | None:
    """The one claim of a study that says nothing about what answers it."""
    return Answers(holds=(1,)) if len(measured.study.claims) == 1 else None


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
    if "no difference" in outcomes and outcomes <= {"reproduced", "direction only", "no difference"}:
        return "Partly" if len(outcomes) > 1 else "No difference that matters"
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


def _tell_tasks(measured: Measured, metric: str) -> str | None:
    """Arms over several tasks, the best one first; None where there are none."""
    found = over_tasks(measured, metric)
    if found is None:
        return None
    means = {arm: found.middle_mean(arm)[0] for arm in found.scores}
    order = sorted(means, key=lambda arm: -found.sign * means[arm])
    told = listed([f"{arm} {rounded(means[arm])}" for arm in order], MOST_GROUPS)
    what = name_metric(measured.metric(metric))
    return f"Over {len(found.scores[order[0]])} tasks, interquartile mean of the {what}: {told}."


def describe_headline(measured: Measured) -> list[str]:
    """Every group's number, then each other group against the first."""
    headline = measured.headline
    if headline is None:
        return ["Nothing was measured that could answer the question."]
    if (told := _tell_tasks(measured, headline.metric)) is not None:
        return [told]
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
    if len(groups) > MOST_GROUPS and headline.at.layer is None and (order := ranked(measured, headline.metric)):
        shown = (order[0], order[-1])
        first = f"{capital(name_metric(metric))} of {len(groups)} groups, best and worst: "
    if len(groups) == 1:
        first = f"{first.removesuffix(': ')} is {_told(measured, headline, groups[0])}"
    else:
        told_groups = [f"{names.group(name)} {_told(measured, headline, name)}" for name in shown]
        first += listed(told_groups, MOST_GROUPS, apart="; ")
    few = all(measured.summary(headline.metric, name, headline.at).bounded for name in shown[:MOST_GROUPS])
    over = f"{seeds} seeds" if measured.study.until_settled is None else measured.seed_words
    how = f"median and {'range' if few else '95 % interval'} over {over}" if seeds > 1 else "1 seed: no interval"
    sentences = [*_furthest(measured, headline), f"{first} ({how})."]
    if len(groups) <= 4:
        for other in groups[1:]:
            comparison = compare(measured, headline.metric, groups[0], other, headline.at)
            if comparison is not None:
                said = replace(comparison, a=names.group(comparison.a), b=names.group(comparison.b))
                sentences.append(tell_comparison(said))
    return sentences


def _furthest(measured: Measured, headline: Headline) -> list[str]:
    """Of a grid that claims would answer if it were not quick: the two groups that they are about."""
    shown = measured.plan.quick and not measured.names.arms and headline.at.layer is None
    pair = choose_pair(measured) if shown else None
    told = None if pair is None else tell_two(measured, headline.metric, headline.at, *pair)
    return [told] if told is not None else []


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


def tell_comparison(c: Comparison) -> str:
    """One comparison as a sentence, with how sure it is."""
    d, r = c.difference, c.ratio
    paired = f"paired over {counted(c.n, 'seed')}" + (f", {c.unknown} of them without a number" if c.unknown else "")
    settled = "" if c.settled else _unsettled(c)
    if c.identical:
        return capital(f"{c.b} and {c.a} do not differ at all, {paired}.")
    if r is None or r.value is None:
        sure = "" if d.bounded else f" (95 %: {written(d.low)} to {written(d.high)})"
        return capital(f"{c.b} minus {c.a}: {written(d.value)}{sure}, {paired}{settled}.")
    lower = r.value < 1
    factor, low, high = r.value, r.low, r.high
    if lower:
        factor, low, high = _inverse_or_inf(r.value), _inverse_or_inf(r.high), _inverse_or_inf(r.low)
    sure = "" if r.bounded else f" (95 %: {written(low)} to {written(high)})"
    zeros = f"; {c.zero_pairs} pairs with an exact zero on one side" if c.zero_pairs else ""
    way = "lower" if lower else "higher"
    return capital(f"{c.b} is {written(factor)} times {way} than {c.a}{sure}, {paired}{zeros}{settled}.")


def _unsettled(c: Comparison) -> str:
    if c.n < FEWEST:
        return f"; not settled, because fewer than {FEWEST} pairs settle nothing"
    return f"; not settled, because the interval contains {0 if c.ratio is None else 1}"


def _inverse_or_inf(value: float | None) -> float:
    return math.inf if not value else 1 / value


# An ablation: the first arm has every part, each other arm lacks one.

WITHOUT = "without "
ALL_ON = "all on"
"""The name of the arm that has every part."""
CARRIES, HURTS, NEITHER, OPEN = "carries the result", "hurts the result", "neither helps nor hurts", "not settled"
NO_DIGIT = "changes no digit"
"""Of a switch that the command may not read at all."""


@dataclass(frozen=True)
class PartVerdict:
    """What a part is worth: without it minus with it, or their ratio."""

    group: str
    apart: Estimate
    ratio: bool
    outcome: str


def _part_outcome(verdict: Verdict) -> str:
    if TOO_SMALL in verdict.codes:
        return NEITHER
    said = {"reproduced": CARRIES, "not reproduced": HURTS, "no difference": NEITHER}
    return said.get(verdict.outcome, OPEN)


def _tell_parts(parts: Sequence[PartVerdict]) -> list[str]:
    """`Carries the result: ema, warmup. Neither helps nor hurts: wd.`"""
    told = []
    for outcome in (CARRIES, HURTS, NEITHER, NO_DIGIT, OPEN):
        names = [part.group.removeprefix(WITHOUT) for part in parts if part.outcome == outcome]
        told += [f"{capital(outcome)}: {', '.join(names)}."] if names else []
    return told


def judge_parts(measured: Measured) -> tuple[PartVerdict, ...]:
    """Every part of an ablation, by the verdict on the claim that it helps; nothing of any other comparison."""
    headline, groups = measured.headline, measured.group_names
    if headline is None or groups[0] != ALL_ON or len(groups) < 2:
        return ()
    found, claims = [], {verdict.claim.selectors[-1]: _part_outcome(verdict) for verdict in verdicts_of(measured)}
    for group in groups[1:]:
        compared = compare(measured, headline.metric, ALL_ON, group)
        if compared is not None:
            shown, outcome = compared.ratio or compared.difference, claims.get(group, OPEN)
            if compared.identical and compared.n > 1 and not compared.unknown:
                outcome = NO_DIGIT
            found.append(PartVerdict(group, shown, compared.ratio is not None, outcome))
    return tuple(found)

"""One test per kind of claim: how improbable the numbers are if it were false, and if it were true.

    a number, one arm against a bound       `_simple`
    two arms, or two layers of one          `_comparison`
    an order, gains that get smaller        `ORDERS`
    the best of several groups              `best_test`
    one axis against another                `effects_test`

`tested` is the entry. `value: theory` is replaced by the predicted number and its band first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, sqrt
from typing import NamedTuple

import numpy as np

from gradlab.analysis.claims.reading import (
    NEVER,
    Reading,
    Side,
    Test,
    against,
    diverged_cells,
    every,
    instances,
    is_measured,
    name_groups,
    read_one,
    read_two,
    sample_of_side,
    say_p,
)
from gradlab.analysis.effects import level_means, own_seeds
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA, Median, Needed, Paired, Proportion, Rule, one_arm, two_arms
from gradlab.analysis.rules.component import Component
from gradlab.analysis.sample import divided, subtracted
from gradlab.analysis.theory import predictions_of
from gradlab.spec.claims import BEST, NEAR, RATIO, THEORY, At, Claim
from gradlab.spec.metric import MATTERS, PERCENT
from gradlab.spec.selection import list_contenders, path_of
from gradlab.theory.prediction import FACTOR, SIGMAS, Forecast
from gradlab.words import written

# Claims of the form `value: theory`: the number that theory predicts for the same place, with its band over seeds.


def with_theory(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Claim | None:
    """The claim with theory's numbers in place of the word; None if theory says nothing there."""
    if claim.value != THEORY:
        return claim
    places = [(side.groups[0], side.at) for side in sides]
    found = [_forecast(measured, str(claim.metric), group, at) for group, at in places]
    if any(one is None or one.center <= 0 for one in found):
        return None
    known = [one for one in found if one is not None]
    if claim.op == "ratio":
        center = known[0].center / known[1].center
        same = places[0][0] == places[1][0]
        squares = [one.spread**2 for one in known]
        spread = sqrt(abs(squares[0] - squares[1]) if same else sum(squares))  # layers of one net share what is above
    else:
        center, spread = known[0].center, known[0].spread
    if claim.within is not None:
        return claim.model_copy(update={"value": center})
    slack = FACTOR if any(one.kind == "order" for one in known) else 1.0
    reach = exp(SIGMAS * spread) * slack
    return claim.model_copy(update={"value": (center / reach, center * reach)})


def theory_says(measured: Measured, claim: Claim, sides: Sequence[Side]) -> float | None:
    """The number itself: the middle of the band."""
    found = with_theory(measured, claim, sides) if claim.value == THEORY else None
    if found is None:
        return None
    return sqrt(found.value[0] * found.value[1]) if isinstance(found.value, tuple) else float(found.value)  # type: ignore[arg-type]


def _forecast(measured: Measured, metric: str, group: str, at: At) -> Forecast | None:
    prediction = predictions_of(measured).get(group)
    if prediction is None or at.step not in ("start", 0) or not isinstance(at.layer, int):
        return prediction.loss if prediction is not None and metric == "initial_loss" and at.layer is None else None
    return prediction.forecast(metric, at.layer)


# Claims that the highest (or lowest) number of several groups is among some of them: best over an axis.
#
# With S the claimed groups and O the others, `max S > max O` holds if for every o in O some s in S is above it. Of one
# o that is shown by the best of |S| paired tests (Bonferroni over S); of all of them by the weakest (an
# intersection–union test, which needs no correction). It is refuted if some o is above every s: the weakest of |S|
# tests, the best over O (Bonferroni over O).


def best_test(measured: Measured, claim: Claim) -> Test | None:
    """The test of every instance; None where nothing was measured."""
    conditions = [planned.group for planned in measured.plan.groups]
    found = [_one(measured, claim, *contenders) for contenders in list_contenders(claim, conditions)]
    tests = [test for test in found if test is not None]
    if len(tests) < len(found):
        return None
    return tests[0] if len(tests) == 1 else every(tests)


def _one(measured: Measured, claim: Claim, claimed: Sequence[str], others: Sequence[str]) -> Test | None:
    sign = 1 if claim.op == "highest" else -1
    at = claim.at.places()[0]
    said = name_groups(measured, [*claimed, *others])
    sides = {name: Side((name,), at, None, said[name]) for name in (*claimed, *others)}
    pairs: dict[tuple[str, str], tuple[Paired, Reading]] = {}
    for own in claimed:
        for other in others:
            found = against(measured, claim, sides[own], sides[other])
            if found is None:
                return None
            pairs[own, other] = found
    margin = margin_of(measured, claim, next(iter(pairs.values()))[0])
    beats = {key: _p(rule, sign) for key, (rule, _) in pairs.items()}
    loses = {key: _p(rule, -sign) for key, (rule, _) in pairs.items()}
    of_other = {other: min(claimed, key=lambda own: beats[own, other]) for other in others}
    hardest = max(others, key=lambda other: beats[of_other[other], other])
    holds = min(1.0, len(claimed) * beats[of_other[hardest], hardest])
    beaten_by = min(others, key=lambda other: max(loses[own, other] for own in claimed))
    fails = min(1.0, len(others) * max(loses[own, beaten_by] for own in claimed))
    rule, reading = pairs[of_other[hardest], hardest]
    same, rival = NEVER, hardest
    if margin is not None:  # no worse than any of the claimed, by what matters
        near = {key: _p(rule, -sign, margin.bound(-sign)) for key, (rule, _) in pairs.items()}
        rival = min(others, key=lambda other: max(near[own, other] for own in claimed))
        same = min(1.0, len(others) * max(near[own, rival] for own in claimed))
    return Test(
        holds,
        NEVER,
        fails,
        f"{rule.stated}, against every other group",
        rule.assumes,
        (*_read_sides(measured, claim, [sides[name] for name in (*claimed, hardest)]), reading),
        lambda level: _soonest(
            rule.seeds_for(rule.nothing, level / len(claimed)), _same_soon(margin, rule, level / len(others))
        ),
        rule.n,
        (*claimed, hardest),
        f"{said[beaten_by]} is {'above' if sign > 0 else 'below'} all of them" if 2 * fails <= ALPHA else "",
        order=True,
        same=same,
        margin="" if margin is None else margin.words,
        part=f"{reading.label} (p {say_p(2 * holds)})" if len(others) > 1 else "",
        equal_part=f"{said[rival]} is as good",
    )


def _p(rule: Paired, sign: int, bound: float | None = None) -> float:
    """One-sided p of `the first is not above the second` (sign 1), or not below it (−1); or not so far above."""
    bound = rule.nothing if bound is None else bound
    return rule.p_above(bound) if sign > 0 else rule.p_below(bound)


# A difference that is too small to matter. It settles a comparison as surely as a difference does.


@dataclass(frozen=True)
class Margin:
    """Between which ends a difference (or ratio) does not matter."""

    low: float
    high: float
    words: str

    def bound(self, sign: int) -> float:
        """What a first that is worse (sign −1: where higher is better) may fall behind at most, or be ahead."""
        return self.high if sign < 0 else self.low

    def p(self, rule: Paired) -> float:
        """One-sided p of `there is a difference that matters`."""
        return rule.p_inside(self.low, self.high)

    def seeds_for(self, rule: Paired, level: float) -> Needed | None:
        """Seeds that would show that there is none; None if it does not look like that."""
        value = rule.estimate.value
        inside = value is not None and self.low < value < self.high
        return _needed(rule, (self.low, self.high), level) if inside else None


def margin_of(measured: Measured, claim: Claim, rule: Paired) -> Margin | None:
    """What would matter in a comparison of two sides; None where nobody says."""
    metric = measured.metric(str(claim.metric))
    # 5 % of a loss are little in a small network and a year's work in a language model: of code of the user's own
    # only the user can say what matters
    known = metric.kind == "accuracy" or not measured.plan.own_code
    usual = MATTERS.get(metric.kind) if known else None
    if usual is not None and metric.kind == "accuracy" and measured.in_percent(metric.name):
        usual *= PERCENT
    matters = claim.matters or measured.study.matters or usual
    if matters is None or metric.on_logs > rule.logs:  # a fraction of a quantity with a sign means nothing
        return None
    if rule.logs:
        return Margin(1 / (1 + matters), 1 + matters, f"less than {100 * matters:.3g} %")
    return Margin(-matters, matters, f"less than {written(matters)}")


def _same_soon(margin: Margin | None, rule: Paired, level: float) -> Needed | None:
    return None if margin is None else margin.seeds_for(rule, level)


def _soonest(*needed: Needed | None) -> Needed | None:
    """Whichever way is settled first."""
    known = [one for one in needed if one is not None]
    if not known:
        return None
    most = [one.most for one in known if one.most is not None]
    return Needed(min(one.fewest for one in known), min(most, default=None))


def _read_sides(measured: Measured, claim: Claim, sides: Sequence[Side]) -> list[Reading]:
    metric, found = measured.metric(str(claim.metric)), []
    for side in sides:
        sample = sample_of_side(measured, metric.name, side)
        rule = one_arm(metric, sample)
        if rule is not None:
            found.append(read_one(side.label, rule, sample))
    return found


# Claims that one axis moves a metric more than another: their variance components, compared over seeds.


def effects_test(measured: Measured, claim: Claim, groups: Sequence[str]) -> Test | None:
    """The difference of two unbiased variances between levels; a cell without a number leaves it unsettled."""
    assert claim.effects is not None
    paths = [path for axis in claim.effects if (path := path_of(axis, measured.plan.groups[0].group.settings))]
    tables = [level_means(measured, str(claim.metric), groups, path) for path in paths]
    seeds = [seed for seed in tables[0] if seed in tables[1]]
    if not seeds:
        return None
    first, second = (np.array([table[seed] for seed in seeds]) for table in tables)
    planned, own = len(measured.planned_seeds[groups[0]]), len(own_seeds(measured, str(claim.metric), groups))
    unknown, copies = own - len(seeds), planned - own
    names = [f"variance between levels of {axis}" for axis in claim.effects]
    whole = Component(first, second)
    readings = (
        Reading(names[0], Component(first).estimate, unknown=unknown),
        Reading(names[1], Component(second).estimate, unknown=unknown),
        Reading(
            f"{claim.effects[0]} − {claim.effects[1]}",
            whole.estimate,
            unknown=unknown,
            diverged_cells=diverged_cells(measured, str(claim.metric), groups),
            copies=copies,
        ),
    )
    cells = f"{unknown} of {planned} seeds have a cell without a number" if unknown else ""
    holds, fails = (NEVER, NEVER) if unknown else (whole.p_above(0), whole.p_below(0))
    return Test(
        holds,
        NEVER,
        fails,
        whole.stated,
        whole.assumes,
        readings,
        lambda level: whole.seeds_for(0, level),
        whole.n,
        tuple(groups),
        cells,
    )


# Claims of an order, and of gains that get smaller: every step has to hold, one reversed step refutes it.


def _order(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Test | None:
    """Sides from largest to smallest. The first against the last is the direction."""
    steps: list[_Step] = []
    for first, second in pairwise(sides):
        found = against(measured, claim, first, second)
        if found is None:
            return None
        steps.append(
            _Step(found[0], found[1].label, (*first.groups, *second.groups), f"{second.label} is above {first.label}")
        )
    ends = against(measured, claim, sides[0], sides[-1])
    assert ends is not None
    whole, reading = ends
    end_to_end = replace(reading, label=f"end to end: {reading.label}", end_to_end=True)
    readings = (*_read_steps(measured, claim, sides), end_to_end)
    return _every_step(measured, claim, steps, whole.p_above(whole.nothing), readings, "for every step")


class _Step(NamedTuple):
    """One step of a chain, which has to lie above nothing."""

    rule: Paired
    label: str
    groups: tuple[str, ...]
    turned: str = ""
    """What is the case if it is reversed, in words."""

    @property
    def up(self) -> float:
        return self.rule.p_above(self.rule.nothing)

    @property
    def down(self) -> float:
        return self.rule.p_below(self.rule.nothing)


def _every_step(
    measured: Measured, claim: Claim, steps: Sequence[_Step], direction: float, readings: tuple[Reading, ...], what: str
) -> Test:
    """A chain holds if every step does, and is refuted by one that is reversed or makes no difference that matters."""
    margins = [margin_of(measured, claim, step.rule) for step in steps]
    flat = [NEVER if margin is None else margin.p(step.rule) for step, margin in zip(steps, margins, strict=True)]
    weakest, reverse = max(range(len(steps)), key=lambda i: steps[i].up), min(steps, key=lambda step: step.down)
    level_step = min(range(len(steps)), key=lambda i: flat[i])
    fails, same = (min(1.0, len(steps) * p) for p in (reverse.down, flat[level_step]))
    decides = (
        steps[weakest] if steps[weakest].up <= min(fails, same) else reverse if fails <= same else steps[level_step]
    )
    margin = margins[steps.index(decides)]
    turned = [step.turned for step in steps if step.turned and 2 * len(steps) * step.down <= ALPHA]
    p = 2 * min(decides.up, len(steps) * decides.down, len(steps) * flat[steps.index(decides)])

    def needed(level: float) -> Needed | None:
        ahead = decides.rule.seeds_for(decides.rule.nothing, level)
        return _soonest(ahead, _same_soon(margin, decides.rule, level / len(steps)))

    return Test(
        steps[weakest].up,
        direction,
        fails,
        f"{steps[0].rule.stated}, {what}",
        steps[0].rule.assumes,
        readings,
        needed,
        decides.rule.n,
        decides.groups,
        "; ".join(turned[:3]),
        order=True,
        same=same,
        margin="" if margin is None else margin.words,
        part=f"{decides.label} (p {say_p(p)})" if len(steps) > 1 else "",
        equal_part=steps[level_step].label,
    )


def _read_steps(measured: Measured, claim: Claim, sides: Sequence[Side]) -> list[Reading]:
    metric = measured.metric(str(claim.metric))
    samples = [(side.label, sample_of_side(measured, metric.name, side)) for side in sides]
    rules = [(label, one_arm(metric, sample), sample) for label, sample in samples]
    return [read_one(label, rule, sample) for label, rule, sample in rules if rule is not None]


def _reverse(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Test | None:
    found = _order(measured, claim, list(reversed(sides)))
    if found is None:
        return None
    *each, ends = found.readings
    return replace(found, readings=(*reversed(each), ends))


def _diminish(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Test | None:
    """Every step gains less than the one before; a gain is a difference, or on logs a ratio, toward what is better."""
    metric = measured.metric(str(claim.metric))
    samples = [sample_of_side(measured, metric.name, side) for side in sides]
    if not all(map(is_measured, samples)):
        return None
    ahead = metric.sign >= 0
    gained = divided if metric.on_logs else subtracted
    gains = [gained(b, a) if ahead else gained(a, b) for a, b in pairwise(samples)]
    steps: list[_Step] = []
    readings = []
    for place, (first, second) in enumerate(pairwise(gains)):
        rule = two_arms(metric, first, second, resolution=2 * measured.resolution(metric.name))
        if rule is None:
            return None
        a, b, c = (side.label for side in sides[place : place + 3])
        label = f"gain from {a} to {b} {'/' if rule.logs else '−'} from {b} to {c}"
        groups = tuple(group for side in sides[place : place + 3] for group in side.groups)
        steps.append(_Step(rule, label, groups))
        readings.append(read_two(label, rule, first, second))
    weakest = max(range(len(steps)), key=lambda index: steps[index].up)
    shown = (*_read_steps(measured, claim, sides), replace(readings[weakest], end_to_end=True))
    return _every_step(measured, claim, steps, NEVER, shown, "of every two gains")


ORDERS: dict[str | None, Callable[[Measured, Claim, Sequence[Side]], Test | None]] = {
    "ordered": _order,
    "decreasing": _order,
    "increasing": _reverse,
    "diminishing": _diminish,
}


# One test per kind of claim: how improbable the numbers are if it were false, and if it were true.


def tested(measured: Measured, claim: Claim, rows: Sequence[Sequence[str]]) -> Test | None:
    """The test of a claim over its instances; None where nothing was measured."""
    assert claim.metric is not None
    if claim.effects is not None:
        return effects_test(measured, claim, rows[0])
    if claim.op in BEST:
        return best_test(measured, claim)
    found = []
    for sides in instances(measured, claim, rows):
        own = with_theory(measured, claim, sides)
        if own is None:
            return None
        test = ORDERS[claim.op](measured, claim, sides) if claim.op in ORDERS else _simple(measured, own, sides)
        if test is None:
            return None
        found.append(test)
    return found[0] if len(found) == 1 else every(found)


def _simple(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Test | None:
    if claim.compares:
        return _comparison(measured, claim, sides[0], sides[1])
    metric = measured.metric(str(claim.metric))
    sample = sample_of_side(measured, metric.name, sides[0])
    resolution = measured.resolution(metric.name)
    rule = one_arm(metric, sample, symmetric=claim.assume == "symmetric", resolution=resolution)
    if rule is None or not is_measured(sample):
        return None
    low, high = _band(claim, logs=metric.on_logs)
    reading = read_one(sides[0].label, rule, sample)
    if len(sides[0].groups) > 1:
        reading = replace(reading, diverged_cells=diverged_cells(measured, metric.name, sides[0].groups))
    return Test(
        rule.p_inside(low, high),
        NEVER,
        rule.p_outside(low, high),
        rule.stated,
        rule.assumes,
        (reading,),
        lambda level: _needed(rule, (low, high), level),
        rule.estimate.n,
        sides[0].groups,
        reciprocal=isinstance(rule, Median | Proportion),
    )


def _band(claim: Claim, *, logs: bool) -> tuple[float, float]:
    """Where the number is said to lie."""
    value = claim.value
    if isinstance(value, tuple):
        return value[0], value[1]
    assert isinstance(value, float)
    if claim.op == ">":
        return value, math.inf
    if claim.op == "<":
        return -math.inf, value
    within = claim.within or (RATIO if claim.op == "ratio" else NEAR)
    if logs and value > 0:
        return value / (1 + within), value * (1 + within)
    low, high = sorted((value * (1 - within), value * (1 + within)))
    return low, high


def _comparison(measured: Measured, claim: Claim, first: Side, second: Side) -> Test | None:
    found = against(measured, claim, first, second, logs=True if claim.op == "ratio" else None)
    if found is None:
        return None
    rule, reading = found
    if claim.op == "ratio" and not rule.logs:
        return None  # a quantity with a sign has no ratio
    low = high = rule.nothing
    direction = NEVER
    margin = None if claim.op == "ratio" else margin_of(measured, claim, rule)
    if claim.op == "ratio":
        low, high = _band(claim, logs=True)
        direction = _direction(claim, rule, low, high)
        holds, fails = rule.p_inside(low, high), rule.p_outside(low, high)
    elif claim.op == ">":
        holds, fails = rule.p_above(low), rule.p_below(low)
    else:
        holds, fails = rule.p_below(low), rule.p_above(low)
    return Test(
        holds,
        direction,
        fails,
        rule.stated,
        rule.assumes,
        (reading,),
        lambda level: _soonest(_needed(rule, (low, high), level), _same_soon(margin, rule, level)),
        rule.n,
        tuple(dict.fromkeys((*first.groups, *second.groups))),
        same=NEVER if margin is None else margin.p(rule),
        margin="" if margin is None else margin.words,
    )


def _direction(claim: Claim, rule: Paired, low: float, high: float) -> float:
    """p of `the first is not on the side of 1 where the ratio is said to lie`."""
    center = claim.value if isinstance(claim.value, float) else low if low >= 1 else high if high <= 1 else None
    if center is None or center == 1:
        return NEVER
    return rule.p_above(1) if center > 1 else rule.p_below(1)


def _needed(rule: Rule, band: tuple[float, float], level: float) -> Needed | None:
    """Seeds that would settle the side of every bound of the band."""
    found = [rule.seeds_for(bound, level) for bound in dict.fromkeys(band) if math.isfinite(bound)]
    wanted = [needed for needed in found if needed is not None]
    if not wanted or len(wanted) < len(found):
        return None
    most = [needed.most for needed in wanted]
    return Needed(max(needed.fewest for needed in wanted), None if None in most else max(count or 0 for count in most))

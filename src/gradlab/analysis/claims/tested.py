"""One test per kind of claim: how improbable the numbers are if it were false, and if it were true."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gradlab.analysis.claims.values import Side, by_seed, effect_by_seed, is_mixture, pairs
from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import Rule, none_apart, one_arm, two_arms
from gradlab.analysis.rules.resampling import bootstrap_interval, permutation_p
from gradlab.analysis.rules.student import Student
from gradlab.spec.claims import NEAR, RATIO, Claim
from gradlab.spec.place import At
from gradlab.spec.selection import path_of

NEVER = 1.0


@dataclass(frozen=True)
class Reading:
    """What was measured on one side, or between two."""

    label: str
    estimate: Estimate
    zeros: int = 0
    """Exact zeros among the values."""
    left_out: int = 0
    """Pairs that have no ratio because of one."""
    permutation: float | None = None
    bootstrap: tuple[float, float] | None = None
    """Shown beside, not deciding."""
    ratio: bool = False
    end_to_end: bool = False
    """Whether it compares the first with the last of an order."""


@dataclass(frozen=True)
class Test:
    """One-sided p-values of the ways a claim can come out, and what they rest on."""

    holds: float
    """Of its contrary: small if the claim holds."""
    direction: float
    """Small if at least the direction is right."""
    fails: float
    """Of the claim itself: small if it does not hold."""
    rule: str
    readings: tuple[Reading, ...]
    needed: Callable[[float], int | None]
    """Level -> seeds that would settle it."""
    remark: str = ""

    @property
    def seeds(self) -> int:
        """The fewest seeds that any of its readings has."""
        return min(reading.estimate.n for reading in self.readings)


def tested(measured: Measured, claim: Claim, rows: Sequence[Sequence[str]]) -> Test | None:
    """The test of a claim over its instances; None where nothing was measured."""
    assert claim.metric is not None
    if claim.effects is not None:
        return _effects(measured, claim, rows[0])
    found = []
    for sides in _instances(measured, claim, rows):
        test = _ORDERS[claim.op](measured, claim, sides) if claim.op in _ORDERS else _simple(measured, claim, sides)
        if test is None:
            return None
        found.append(test)
    return found[0] if len(found) == 1 else _every(found)


def _instances(measured: Measured, claim: Claim, rows: Sequence[Sequence[str]]) -> list[list[Side]]:
    """The sides of every instance of a claim: of each row of groups (or all of them pooled), of each layer."""
    if claim.pooled and len(rows) > 1:
        names = claim.selectors or ("all groups",)
        pools = [tuple(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
        named = [(pool, names[index] if index < len(names) else "") for index, pool in enumerate(pools)]
        rows_of_pools = [[(pool, f"mean of {name}") for pool, name in named]]
    else:
        rows_of_pools = [[((group,), "") for group in row] for row in rows]
    found = []
    for row in rows_of_pools:
        for places in _places(measured, claim, row[0][0][0]):
            if len(places) == 2 and len(row) == 2:
                found.append([Side(pool, places[0], places[1], name) for pool, name in row])
            else:
                found.append([Side(pool, at, None, name) for pool, name in row for at in places])
    return found


def _places(measured: Measured, claim: Claim, group: str) -> list[tuple[At, ...]]:
    if claim.at.layer != "all":
        return [claim.at.places()]
    return [(place,) for place in measured.places(claim.at, group)]


def _effects(measured: Measured, claim: Claim, groups: Sequence[str]) -> Test | None:
    """Whether one axis moves the metric more than another, paired over seeds."""
    assert claim.effects is not None
    paths = [path for axis in claim.effects if (path := path_of(axis, measured.plan.groups[0].group.settings))]
    tables = [effect_by_seed(measured, str(claim.metric), groups, path) for path in paths]
    both = pairs(tables[0], tables[1])
    if not both:
        return None
    rule = Student(tuple(a - b for a, b in both), paired=True)
    estimates = [Student(tuple(table.values())).estimate for table in tables]
    each = [Reading(f"effect of {axis}", found) for axis, found in zip(claim.effects, estimates, strict=True)]
    readings = (*each, Reading(f"{claim.effects[0]} − {claim.effects[1]}", rule.estimate, 0, 0, _permutation(rule)))
    return Test(rule.p_above(0), NEVER, rule.p_below(0), rule.stated, readings, lambda level: rule.seeds_for(0, level))


def _every(tests: Sequence[Test]) -> Test:
    """A claim made of several groups holds if it holds of each; it fails if it fails of one (Bonferroni)."""
    worst = max(tests, key=lambda test: test.holds)
    return replace(
        worst,
        holds=worst.holds,
        direction=max(test.direction for test in tests),
        fails=min(1.0, len(tests) * min(test.fails for test in tests)),
        readings=tuple(reading for test in tests for reading in test.readings),
        remark="; ".join(dict.fromkeys(filter(None, (test.remark for test in tests)))),
    )


def _simple(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Test | None:
    if claim.compares:
        return _comparison(measured, claim, sides[0], sides[1])
    values = by_seed(measured, str(claim.metric), sides[0])
    rule = one_arm(
        measured.metric(str(claim.metric)), list(values.values()), is_mixture(measured, str(claim.metric), sides[0])
    )
    if rule is None:
        return None
    reading = Reading(sides[0].label, rule.estimate, sum(v == 0 for v in values.values()), 0, None, _bootstrap(rule))
    low, high = _band(claim, rule)
    return Test(
        rule.p_inside(low, high),
        NEVER,
        rule.p_outside(low, high),
        rule.stated,
        (reading,),
        lambda level: _needed(rule, (low, high), level),
    )


def _band(claim: Claim, rule: Rule) -> tuple[float, float]:
    """Where the number is said to lie."""
    value = claim.value
    if isinstance(value, tuple):
        return value[0], value[1]
    assert value is not None
    if claim.op == ">":
        return value, math.inf
    if claim.op == "<":
        return -math.inf, value
    within = claim.within or (RATIO if claim.op == "ratio" else NEAR)
    if isinstance(rule, Student) and rule.logs:
        return value / (1 + within), value * (1 + within)
    return tuple(sorted((value * (1 - within), value * (1 + within))))  # type: ignore[return-value]


def _comparison(measured: Measured, claim: Claim, first: Side, second: Side) -> Test | None:
    found = _against(measured, claim, first, second, size=claim.op == "ratio")
    if found is None:
        return None
    rule, reading, nothing = found
    if claim.op == "ratio":
        if nothing != 1.0:
            return None  # a quantity with a sign has no ratio
        low, high = _band(claim, rule)
        center = claim.value if isinstance(claim.value, float) else low if low >= 1 else high if high <= 1 else None
        above = center is not None and center > 1
        direction = NEVER if center is None or center == 1 else rule.p_above(1) if above else rule.p_below(1)
        holds, fails = rule.p_inside(low, high), rule.p_outside(low, high)
    else:
        holds, fails = rule.p_above(nothing), rule.p_below(nothing)
        holds, fails = (holds, fails) if claim.op == ">" else (fails, holds)
        low = high = nothing
        direction = NEVER
    return Test(holds, direction, fails, rule.stated, (reading,), lambda level: _needed(rule, (low, high), level))


def _against(
    measured: Measured, claim: Claim, first: Side, second: Side, *, size: bool = False
) -> tuple[Rule, Reading, float] | None:
    """The rule for first against second, what was read, and the value that means no difference."""
    metric = str(claim.metric)
    both = pairs(by_seed(measured, metric, first), by_seed(measured, metric, second))
    mixed = is_mixture(measured, metric, first) or is_mixture(measured, metric, second)
    rule = two_arms(measured.metric(metric), both, mixed, size=size)
    if rule is None:
        return None
    nothing = none_apart(measured.metric(metric), both, size=size)
    zeros = sum(min(pair) == 0 for pair in both) if nothing == 1 else 0
    left_out = len(both) - rule.estimate.n
    names = (first.label, second.label)
    if first.groups == second.groups:
        names = (f"layer {first.at.layer}", f"layer {second.at.layer}")
    label = f" {'/' if nothing == 1 else '−'} ".join(names)
    reading = Reading(label, rule.estimate, zeros, left_out, _permutation(rule), _bootstrap(rule), nothing == 1)
    return rule, reading, nothing


def _order(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Test | None:
    """Sides from largest to smallest: every step has to hold; the first against the last is the direction."""
    steps, turned = [], []
    for first, second in pairwise(sides):
        found = _against(measured, claim, first, second)
        if found is None:
            return None
        steps.append(found)
        if 2 * found[0].p_below(found[2]) <= 0.05:
            turned.append(f"{second.label} is above {first.label}")
    ends = _against(measured, claim, sides[0], sides[-1])
    assert ends is not None
    whole, reading, nothing = ends
    weakest = max(steps, key=lambda step: step[0].p_above(step[2]))
    return Test(
        weakest[0].p_above(weakest[2]),
        whole.p_above(nothing),
        whole.p_below(nothing),
        f"{whole.stated}, for every step",
        (*_each(measured, claim, sides), replace(reading, label=f"end to end: {reading.label}", end_to_end=True)),
        lambda level: weakest[0].seeds_for(weakest[2], level),
        "; ".join(turned[:3]),
    )


def _each(measured: Measured, claim: Claim, sides: Sequence[Side]) -> list[Reading]:
    metric = str(claim.metric)
    found = []
    for side in sides:
        values = list(by_seed(measured, metric, side).values())
        rule = one_arm(measured.metric(metric), values, is_mixture(measured, metric, side))
        if rule is not None:
            found.append(Reading(side.label, rule.estimate, values.count(0.0)))
    return found


def _reverse(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Test | None:
    found = _order(measured, claim, list(reversed(sides)))
    if found is None:
        return None
    *each, ends = found.readings
    return replace(found, readings=(*reversed(each), ends))


_ORDERS: dict[str | None, Callable[[Measured, Claim, Sequence[Side]], Test | None]] = {
    "ordered": _order,
    "decreasing": _order,
    "increasing": _reverse,
}


def _needed(rule: Rule, band: tuple[float, float], level: float) -> int | None:
    """Seeds that would settle the side of every bound of the band that is not settled yet."""
    wanted = [rule.seeds_for(bound, level) for bound in dict.fromkeys(band) if math.isfinite(bound)]
    return None if any(count is None for count in wanted) else max(count or 0 for count in wanted)


def _permutation(rule: Rule) -> float | None:
    return permutation_p(rule.numbers) if isinstance(rule, Student) else None


def _bootstrap(rule: Rule) -> tuple[float, float] | None:
    if not isinstance(rule, Student):
        return None
    found = bootstrap_interval(rule.numbers)
    if found is None or not rule.logs:
        return found
    low, high = np.exp(np.minimum(found, 709.0))
    return float(low), float(high)

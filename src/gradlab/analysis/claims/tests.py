"""One test per kind of claim: how improbable the numbers are if it were false, and if it were true."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gradlab.analysis.claims.numbers import Side, by_seed, is_mixture, pairs
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import Estimate, Rule, none_apart, one_arm, two_arms
from gradlab.analysis.rules.resampling import bootstrap_interval, permutation_p
from gradlab.analysis.rules.student import Student
from gradlab.spec.claims import NEAR, RATIO, Claim

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
    found = []
    for row in rows:
        places = claim.at.places()
        sides = [Side(group, at) for group in row for at in places]
        test = _ORDERS[claim.op](measured, claim, sides) if claim.op in _ORDERS else _simple(measured, claim, sides)
        if test is None:
            return None
        found.append(test)
    return found[0] if len(found) == 1 else _every(found)


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
    rule = one_arm(str(claim.metric), list(values.values()), is_mixture(measured, str(claim.metric), sides[0].group))
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
        centre = claim.value if isinstance(claim.value, float) else low if low >= 1 else high if high <= 1 else None
        above = centre is not None and centre > 1
        direction = NEVER if centre is None or centre == 1 else rule.p_above(1) if above else rule.p_below(1)
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
    mixed = is_mixture(measured, metric, first.group) or is_mixture(measured, metric, second.group)
    rule = two_arms(metric, both, mixed, size=size)
    if rule is None:
        return None
    nothing = none_apart(metric, both)
    zeros = sum(min(pair) == 0 for pair in both) if nothing == 1 else 0
    left_out = len(both) - rule.estimate.n
    label = f"{first.label} {'/' if nothing == 1 else '−'} {second.label}"
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
        (*_each(measured, claim, sides), replace(reading, label=f"first against last: {reading.label}")),
        lambda level: weakest[0].seeds_for(weakest[2], level),
        "; ".join(turned[:3]),
    )


def _each(measured: Measured, claim: Claim, sides: Sequence[Side]) -> list[Reading]:
    metric = str(claim.metric)
    found = []
    for side in sides:
        values = list(by_seed(measured, metric, side).values())
        rule = one_arm(metric, values, is_mixture(measured, metric, side.group))
        if rule is not None:
            found.append(Reading(side.label, rule.estimate, values.count(0.0)))
    return found


def _reverse(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Test | None:
    return _order(measured, claim, list(reversed(sides)))


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

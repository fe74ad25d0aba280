"""One test per kind of claim: how improbable the numbers are if it were false, and if it were true."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradlab.analysis.claims.best import best_test
from gradlab.analysis.claims.effects import effects_test
from gradlab.analysis.claims.orders import ORDERS
from gradlab.analysis.claims.reading import NEVER, Test, every, read_one
from gradlab.analysis.claims.sides import against, instances
from gradlab.analysis.claims.theory import with_theory
from gradlab.analysis.claims.values import Side, is_measured, sample_of_side
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import Needed, Paired, Rule, one_arm
from gradlab.spec.claims import BEST, NEAR, RATIO, Claim


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
    rule = one_arm(metric, sample)
    if rule is None or not is_measured(sample):
        return None
    low, high = _band(claim, logs=metric.on_logs)
    return Test(
        rule.p_inside(low, high),
        NEVER,
        rule.p_outside(low, high),
        rule.stated,
        rule.assumes,
        (read_one(sides[0].label, rule, sample),),
        lambda level: _needed(rule, (low, high), level),
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
    if claim.op == "ratio":
        low, high = _band(claim, logs=True)
        direction = _direction(claim, rule, low, high)
        holds, fails = rule.p_inside(low, high), rule.p_outside(low, high)
    elif claim.op == ">":
        holds, fails = rule.p_above(low), rule.p_below(low)
    else:
        holds, fails = rule.p_below(low), rule.p_above(low)
    return Test(
        holds, direction, fails, rule.stated, rule.assumes, (reading,), lambda level: _needed(rule, (low, high), level)
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

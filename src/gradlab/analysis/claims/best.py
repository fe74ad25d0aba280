"""Claims that the highest (or lowest) number of several groups is among some of them: best over an axis.

With S the claimed groups and O the others, `max S > max O` holds if for every o in O some s in S is above it. Of one
o that is shown by the best of |S| paired tests (Bonferroni over S); of all of them by the weakest (an
intersection–union test, which needs no correction). It is refuted if some o is above every s: the weakest of |S| tests,
the best over O (Bonferroni over O).
"""

from __future__ import annotations

from collections.abc import Sequence

from gradlab.analysis.claims.reading import NEVER, Reading, Test, every, read_one
from gradlab.analysis.claims.sides import against, name_groups
from gradlab.analysis.claims.values import Side, sample_of_side
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA, Paired, one_arm
from gradlab.spec.claims import Claim
from gradlab.spec.selection import list_contenders


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
    beats = {key: _p(rule, sign) for key, (rule, _) in pairs.items()}
    loses = {key: _p(rule, -sign) for key, (rule, _) in pairs.items()}
    of_other = {other: min(claimed, key=lambda own: beats[own, other]) for other in others}
    hardest = max(others, key=lambda other: beats[of_other[other], other])
    holds = min(1.0, len(claimed) * beats[of_other[hardest], hardest])
    beaten_by = min(others, key=lambda other: max(loses[own, other] for own in claimed))
    fails = min(1.0, len(others) * max(loses[own, beaten_by] for own in claimed))
    rule, reading = pairs[of_other[hardest], hardest]
    return Test(
        holds,
        NEVER,
        fails,
        f"{rule.stated}, against every other group",
        rule.assumes,
        (*_each(measured, claim, [sides[name] for name in (*claimed, hardest)]), reading),
        lambda level: rule.seeds_for(rule.nothing, level / len(claimed)),
        f"{said[beaten_by]} is {'above' if sign > 0 else 'below'} all of them" if 2 * fails <= ALPHA else "",
        order=True,
    )


def _p(rule: Paired, sign: int) -> float:
    """One-sided p of `the first is not above the second` (sign 1), or not below it (−1)."""
    return rule.p_above(rule.nothing) if sign > 0 else rule.p_below(rule.nothing)


def _each(measured: Measured, claim: Claim, sides: Sequence[Side]) -> list[Reading]:
    metric, found = measured.metric(str(claim.metric)), []
    for side in sides:
        sample = sample_of_side(measured, metric.name, side)
        rule = one_arm(metric, sample)
        if rule is not None:
            found.append(read_one(side.label, rule, sample))
    return found

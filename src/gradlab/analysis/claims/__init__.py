"""Claims -> verdicts. One deciding rule per kind of claim (`analysis.rules`), Holm across the claims of a study.

A claim is *reproduced* if its contrary is refuted, *direction only* if just the direction is, *not reproduced* if the
claim itself is refuted, each at 5 % after Holm; otherwise it is *not settled*, and says how many seeds would settle it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gradlab.analysis.claims.tested import Test, tested
from gradlab.analysis.claims.verdict import Outcome, Verdict
from gradlab.analysis.formatting import number
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA
from gradlab.errors import StudyError
from gradlab.spec.claims import NEAR, RATIO, Claim
from gradlab.spec.selection import chosen

__all__ = ["Verdict", "holm_levels", "judge", "said"]


def judge(measured: Measured) -> tuple[Verdict, ...]:
    """A verdict on every claim of the study, in its order."""
    study = measured.study
    tests: list[Test | str] = [_tested(measured, claim) for claim in study.claims]
    strengths = {index: _strength(test) for index, test in enumerate(tests) if isinstance(test, Test)}
    levels = dict(zip(strengths, holm_levels(list(strengths.values())), strict=True))
    found = []
    for index, (claim, test) in enumerate(zip(study.claims, tests, strict=True)):
        if isinstance(test, str):
            found.append(Verdict(claim, "not tested", test, other_data=study.other_data))
            continue
        outcome, reason, needs = _decided(test, said(claim), levels[index], len(levels))
        found.append(
            Verdict(
                claim,
                outcome,
                reason,
                test.rule,
                min(1.0, strengths[index]),
                levels[index],
                test.readings,
                needs,
                other_data=study.other_data,
            )
        )
    return tuple(found)


def _tested(measured: Measured, claim: Claim) -> Test | str:
    """The test, or the reason why there is none."""
    if claim.metric is None:
        return "the claim names no number that could be measured"
    if measured.plan.quick and claim.budget == "full":
        return "reduced budget"
    try:
        rows = chosen(claim, [planned.group for planned in measured.plan.groups])
    except StudyError as error:
        return f"reduced budget ({error})" if measured.plan.quick else str(error)
    return tested(measured, claim, rows) or "not measured"


def said(claim: Claim) -> str:
    """What a claim says of its number, in words: `below 0.07`, `near 5.3 (within 25 %)`."""
    value = claim.value
    if claim.op in ("decreasing", "increasing"):
        return f"{claim.op} along {claim.along} at every step"
    if claim.op == "ordered":
        return f"in the order {' > '.join(claim.selectors)}"
    if isinstance(value, tuple):
        low, high = value
        if high == inf or low == -inf:
            return f"above {number(low)}" if high == inf else f"below {number(high)}"
        return f"between {number(low)} and {number(high)}"
    if claim.op in ("near", "ratio"):
        within = claim.within or (RATIO if claim.op == "ratio" else NEAR)
        return f"near {number(value)} (within {100 * within:.0f} %)"
    if claim.effects is not None:
        return f"larger for {claim.effects[0]} than for {claim.effects[1]}"
    if value is not None:
        return f"{'above' if claim.op == '>' else 'below'} {number(value)}"
    sides = claim.selectors if len(claim.selectors) == 2 else [f"layer {at.layer}" for at in claim.at.places()]
    return f"{'higher' if claim.op == '>' else 'lower'} in {sides[0]} than in {sides[1]}"


def _strength(test: Test) -> float:
    """Two-sided p of the outcome that is best supported."""
    return 2 * min(test.holds, test.direction, test.fails)


def holm_levels(strengths: Sequence[float]) -> list[float]:
    """The level at which each is tested: α/m for the smallest p, then α/(m − 1), … until one is not settled."""
    order = sorted(range(len(strengths)), key=lambda index: strengths[index])
    levels, level, standing = [ALPHA] * len(strengths), ALPHA, True
    for place, index in enumerate(order):
        if standing:
            level = ALPHA / (len(strengths) - place)
            standing = strengths[index] <= level
        levels[index] = level
    return levels


def _decided(test: Test, condition: str, level: float, claims: int) -> tuple[Outcome, str, int | None]:
    remark = f": {test.remark}" if test.remark else ""
    outcomes: tuple[tuple[Outcome, float, str], ...] = (
        ("reproduced", test.holds, f"shown to be {condition}"),
        ("direction only", test.direction, f"the direction is right, but it is not {condition}{remark}"),
        ("not reproduced", test.fails, f"shown not to be {condition}{remark}"),
    )
    for outcome, p, words in outcomes:
        if 2 * p <= level:
            return outcome, f"{words} (p {_p(2 * p)})", None
    if test.seeds < 2:
        return "not settled", "one seed has no interval; run at least 3", 2
    alone = [words for _, p, words in outcomes if 2 * p <= ALPHA]
    family = f"; alone it would be settled, but not among {claims} claims (Holm)" if alone else ""
    wanted = test.needed(level)
    more = None if wanted is None else max(wanted - test.seeds, 1)
    far = "" if wanted is not None else "; no number of seeds up to 10,000 would settle it if they go on like this"
    return (
        "not settled",
        f"whether it is {condition}: p {_p(_strength(test))}, needed {number(level, 2)}{family}{far}",
        more,
    )


def _p(p: float) -> str:
    return "< 1e-10" if p < 1e-10 else f"= {number(min(p, 1.0), 2)}"

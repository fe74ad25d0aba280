"""Claims -> verdicts. One deciding rule per kind of claim (`analysis.rules`), Holm across the claims of a study.

The sentence and the number that was published with it get an answer each (`claims.numbers`).

A claim is *reproduced* if its contrary is refuted, *direction only* if just the direction is shown, *not reproduced*
if the claim itself is refuted, each at 5 % after Holm; otherwise it is *not settled*, and says how many seeds would
settle it. An order is refuted by one reversed step.
"""

from __future__ import annotations

from math import inf

from gradlab.analysis.claims.kinds import tested
from gradlab.analysis.claims.numbers import numbers_of_claim
from gradlab.analysis.claims.power import Level, claim_levels, holm_levels
from gradlab.analysis.claims.reading import Test, name_cells, say_p
from gradlab.analysis.claims.verdict import Outcome, Verdict, leave_open_at_edges
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA, Needed
from gradlab.errors import StudyError
from gradlab.facts import Fact
from gradlab.spec.claims import BEST, NEAR, RATIO, THEORY, Claim
from gradlab.spec.naming import say_selector
from gradlab.spec.selection import chosen
from gradlab.spec.study import UntilSettled
from gradlab.words import describe_layer, join, percent, written

Way = tuple[Outcome, float, float, str]
"""An outcome, its one-sided p, the level that p has to reach, and the words for it."""

__all__ = ["Verdict", "claim_levels", "claim_test", "holm_levels", "judge", "said"]


def judge(measured: Measured) -> tuple[Verdict, ...]:
    """A verdict on every claim of the study, in its order."""
    study = measured.study
    tests: list[Test | Fact] = [claim_test(measured, claim) for claim in study.claims]
    strengths = {index: test.p for index, test in enumerate(tests) if isinstance(test, Test)}
    primary = [study.claims[index].primary for index in strengths]
    levels = dict(zip(strengths, claim_levels(list(strengths.values()), primary), strict=True))
    found = []
    for index, (claim, test) in enumerate(zip(study.claims, tests, strict=True)):
        if isinstance(test, Fact):
            found.append(Verdict(claim, "not tested", test.words, (test.code,), other_data=study.other_data))
            continue
        numbers = numbers_of_claim(measured, claim)
        outcome, reason, needs = _decided(test, said(measured, claim), levels[index])
        if outcome == "not settled" and needs is not None and not measured.plan.quick:
            reason += _where_it_stopped(study.until_settled, needs)
        found.append(
            Verdict(
                claim,
                outcome,
                reason,
                _codes(test, outcome, levels[index], needs),
                test.rule,
                test.assumes,
                _strongest(test, outcome),
                levels[index].claim,
                test.readings,
                test.groups,
                None if needs is None else max(needs.fewest - test.seeds, 1),
                None if needs is None or needs.most is None else max(needs.most - test.seeds, 1),
                other_data=study.other_data,
                changed=bool(study.changed),
                numbers=numbers,
            )
        )
    return leave_open_at_edges(measured, found)


def claim_test(measured: Measured, claim: Claim) -> Test | Fact:
    """The test, or the reason why there is none."""
    if claim.metric is None:
        return Fact("no_metric", "the claim names no number that could be measured")
    if measured.plan.quick and claim.budget == "full":
        return Fact("reduced_budget", "reduced budget")
    try:
        rows = chosen(claim, [planned.group for planned in measured.plan.groups])
    except StudyError as error:
        if measured.plan.quick:
            return Fact("reduced_budget", f"reduced budget ({error})")
        return Fact("no_such_group", str(error))
    return tested(measured, claim, rows) or Fact("not_measured", "not measured")


def said(measured: Measured, claim: Claim) -> str:
    """What a claim says of its number, in words: `below 0.07`, `near 5.3 (within 25 %)`."""
    value, selectors = claim.value, [say_selector(measured.names, each) for each in claim.selectors]
    if value == THEORY:
        return "what theory predicts, within " + (percent(claim.within) if claim.within else "its band")
    if claim.op in ("decreasing", "increasing"):
        return f"{claim.op} along {claim.along} at every step"
    if claim.op == "diminishing":
        return f"gaining less at every step along {claim.along} than at the one before"
    if claim.op == "ordered":
        return f"in the order {' > '.join(selectors)}"
    if claim.op in BEST:
        among = f" along {claim.along}" if claim.along else ""
        return f"the {claim.op}{among} for {join(selectors, 'or')}"
    if isinstance(value, tuple):
        low, high = value
        if high == inf or low == -inf:
            return f"above {written(low)}" if high == inf else f"below {written(high)}"
        return f"between {written(low)} and {written(high)}"
    if claim.op in ("near", "ratio"):
        within = claim.within or (RATIO if claim.op == "ratio" else NEAR)
        return f"near {written(value)} (within {percent(within)})"
    if claim.effects is not None:
        return f"larger for {claim.effects[0]} than for {claim.effects[1]}"
    if value is not None:
        return f"{'above' if claim.op == '>' else 'below'} {written(value)}"
    way = "higher" if claim.op == ">" else "lower"
    if len(selectors) == 2:
        return f"{way} for {selectors[0]} than for {selectors[1]}"
    first, second = (describe_layer(at.layer) for at in claim.at.places())
    return f"{way} in {first} than in {second}"


def _strongest(test: Test, outcome: Outcome) -> float:
    """Two-sided p of the outcome, or of the one that is best supported."""
    return min(1.0, 2 * test.direction if outcome == "direction only" else test.p)


def _decided(test: Test, condition: str, level: Level) -> tuple[Outcome, str, Needed | None]:
    remark = f": {test.remark}" if test.remark else ""
    holds: Way = ("reproduced", test.holds, level.claim, f"shown to be {condition}")
    fails: Way = ("not reproduced", test.fails, level.claim, f"shown not to be {condition}{remark}")
    flat = 2 * test.same <= level.claim
    refuted = flat if test.order else 2 * test.fails <= level.claim
    size = f"but it is not {condition}" if refuted else f"that it is {condition} is not shown"
    direction: Way = ("direction only", test.direction, level.direction, f"the direction is right, {size}{remark}")
    same: Way = ("no difference", test.same, level.claim, "no difference that matters")
    ways = (holds, fails, direction, same) if test.order else (holds, direction, fails, same)
    where = f" in {test.equal_part}" if test.equal_part else ""
    small = f"; the difference{where} is shown to be {test.margin}, if any" if flat else ""
    for outcome, p, needed, words in ways:
        if 2 * p <= needed:
            open_size = outcome == "direction only" and not refuted
            wanted = test.needed(level.claim) if open_size else None
            copies = test.copies and f"; {test.copies}"
            return outcome, f"{words} (p {say_p(2 * p)}){small}{copies}{test.remarks}", wanted
    lost = f"; {test.unknown} of {test.seeds} seeds have no number and count against any answer" if test.unknown else ""
    lost = _lost_cells(test) or lost
    alone = test.p <= ALPHA
    family = "; alone it would be settled, but not among the study's other claims (Holm)" if alone else ""
    if level.claim == 0:
        family, level = "; the primary claims come first, and none of them is settled", Level(ALPHA, ALPHA)
    why = test.copies or test.equal
    wanted = None if why or test.lost_cells else test.needed(level.claim)
    far = "" if wanted or why or lost else "; no number of seeds up to 10,000 would settle it if they go on like this"
    held = f"; held back by {test.part}" if test.part else ""
    reason = f"whether it is {condition}: p {say_p(test.p)}, needed {written(level.claim, 2)}"
    return "not settled", f"{reason}{held}{family}{lost}{why and f'; {why}'}{test.remarks}{far}", wanted


TOO_SMALL = "too_small_to_matter"
"""Code of a difference that is shown, and shown to be less than what matters."""


def _where_it_stopped(rule: UntilSettled | None, needs: Needed) -> str:
    """Why no more seeds were added, in words; empty if none would have been."""
    if rule is None:
        return ""
    if needs.fewest > rule.most:
        return f"; it would take at least {needs.fewest:,} seeds, and {rule.most:,} were allowed"
    return f"; {needs.fewest:,} seeds may settle it, but the run was stopped before"


def _codes(test: Test, outcome: Outcome, level: Level, needs: Needed | None) -> tuple[str, ...]:
    """Why it came out so, for programs: what the reason says in words."""
    is_open = outcome == "not settled"
    codes = {
        "alone_settled": is_open and level.claim > 0 and test.p <= ALPHA,
        "primary_claims_first": is_open and level.claim == 0,
        "cells_without_number": is_open and bool(test.lost_cells),
        "seeds_without_number": is_open and bool(test.unknown) and not test.lost_cells,
        "same_under_every_seed": is_open and bool(test.copies),
        "equal_in_every_seed": is_open and bool(test.equal),
        "more_seeds_would_settle": needs is not None,
        TOO_SMALL: outcome != "no difference" and 2 * test.same <= level.claim,
        "one_side_diverged": any(reading.diverged_cells for reading in test.readings),
        "one_side_constant": any(reading.constant and not reading.copies for reading in test.readings),
    }
    return tuple(code for code, holds in codes.items() if holds)


def _lost_cells(test: Test) -> str:
    """Which cells of a pool leave it open, in words."""
    cells = test.lost_cells
    if not cells:
        return ""
    return (
        f"; both sides diverged or gave no number at {name_cells(cells)}, so nobody can say which is better there: "
        "narrow the claim with `at`"
    )

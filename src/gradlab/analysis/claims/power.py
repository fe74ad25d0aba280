"""Before any training: which claims cannot be settled with the seeds asked for, however clear the results.

A claim about one arm rests on a sign test of its seeds, which is slow at first; a comparison of two arms needs three
pairs. Holm's correction over the study's claims asks the more of the slow ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradlab.analysis.rules import ALPHA
from gradlab.analysis.rules.base import first_number
from gradlab.analysis.rules.evidence import p_value, share_evidence
from gradlab.analysis.rules.schedule import FEWEST as FEWEST_PAIRS
from gradlab.spec.claims import BEST, Claim
from gradlab.spec.question import Question
from gradlab.trials.recorder import METRICS


@dataclass(frozen=True)
class Shortfall:
    """A claim that needs more seeds than the study has, even if all of them agree."""

    number: int
    """Of the claim, counted from 1."""
    claim: Claim
    needs: int


def list_shortfalls(study: Question, *, quick: bool = False) -> tuple[Shortfall, ...]:
    """Every claim that no result could settle."""
    seeds = len(study.trial_seeds)
    tested = [
        (number, claim)
        for number, claim in enumerate(study.claims, 1)
        if claim.metric is not None and not (quick and claim.budget == "full")
    ]
    alone = sum(_one_arm(claim) for _, claim in tested)
    found = []
    for number, claim in tested:
        needs = _seeds_alone(claim, alone) if _one_arm(claim) else FEWEST_PAIRS
        if needs > seeds:
            found.append(Shortfall(number, claim, needs))
    return tuple(found)


def describe_shortfalls(study: Question, *, quick: bool = False) -> str:
    """All of them in one sentence; empty if there are none."""
    found = list_shortfalls(study, quick=quick)
    if not found:
        return ""
    seeds = len(study.trial_seeds)
    which = ", ".join(str(short.number) for short in found)
    every = len(found) == len(study.claims) > 1
    claims = "any claim" if every else f"claim {which}" if len(found) == 1 else f"claims {which}"
    count = f"{seeds:,} seed{'s' * (seeds != 1)}"
    return (
        f"{count} cannot settle {claims}, however clear the results: at least {max(s.needs for s in found)} are needed"
    )


def _one_arm(claim: Claim) -> bool:
    chain = claim.op in ("ordered", "decreasing", "increasing", *BEST)
    return not (claim.compares or chain)


def _seeds_alone(claim: Claim, claims: int) -> int:
    """The fewest seeds that settle a claim about one arm among so many if all of them agree."""
    level = ALPHA / claims
    flag = claim.metric == "diverged" or (claim.metric in METRICS and METRICS[str(claim.metric)].kind == "flag")
    share = 0.5
    if flag and isinstance(claim.value, float):
        share = min(claim.value, 1 - claim.value)  # whichever way is settled first
    return first_number(lambda n: 2 * p_value(share_evidence(n, n, share)) <= level, 1) or 10_000

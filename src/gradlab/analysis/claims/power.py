"""The level that each claim of a study is tested at, and which claims the planned seeds cannot settle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from gradlab.analysis.rules.base import ALPHA, MOST_SEEDS, first_number, p_value, share_evidence
from gradlab.analysis.rules.component import clearest_component
from gradlab.analysis.rules.paired import clearest_pairs
from gradlab.spec.claims import ALONG_AN_AXIS, BEST, Claim
from gradlab.spec.study import Study
from gradlab.trials.metrics import METRICS
from gradlab.words import counted

# All claims of a study share 5 %.


class Level(NamedTuple):
    """What two-sided p-values of a claim have to be at most."""

    claim: float
    direction: float


def holm_levels(strengths: Sequence[float], alpha: float = ALPHA) -> list[float]:
    """The level at which each is tested: α/m for the smallest p, then α/(m − 1), … until one is not settled."""
    order = sorted(range(len(strengths)), key=lambda index: strengths[index])
    levels, level, standing = [alpha] * len(strengths), alpha, True
    for place, index in enumerate(order):
        if standing:
            level = alpha / (len(strengths) - place)
            standing = strengths[index] <= level
        levels[index] = level
    return levels


def claim_levels(strengths: Sequence[float], primary: Sequence[bool]) -> list[Level]:
    """The level of every claim, and that of its direction.

    Primary claims divide α among them, and each that is settled hands its part on to the others, which are tested by
    Holm at what they were given (parallel gatekeeping). Without primary claims it is Holm over all.
    """
    first = [index for index, own in enumerate(primary) if own]
    rest = [index for index, own in enumerate(primary) if not own]
    part = ALPHA / max(len(first), 1)
    given = part * sum(strengths[index] <= part for index in first) if first else ALPHA
    found = dict.fromkeys(first, Level(part, part))
    for index, level in zip(rest, holm_levels([strengths[index] for index in rest], given), strict=True):
        found[index] = Level(level, given / len(rest))
    return [found[index] for index in range(len(strengths))]


# Before any training: which claims cannot be settled with the seeds asked for, however clear the results.
#
# A claim about one arm rests on a sign test of its seeds, which is slow at first; a comparison of two arms needs five
# pairs, and more among many claims. Holm's correction over the study's claims asks the more of the slow ones.


@dataclass(frozen=True)
class Shortfall:
    """A claim that needs more seeds than the study has, even if all of them agree."""

    number: int
    """Of the claim, counted from 1."""
    claim: Claim
    needs: int


def list_shortfalls(study: Study, *, quick: bool = False) -> tuple[Shortfall, ...]:
    """Every claim that no result could settle."""
    seeds = _planned_seeds(study)
    tested = {
        number: claim
        for number, claim in enumerate(study.claims, 1)
        if claim.metric is not None and not (quick and claim.budget == "full")
    }
    found = []
    for place, (number, claim) in enumerate(tested.items()):

        def settles(n: int, place: int = place) -> bool:
            return _settled(tuple(tested.values()), n)[place]

        needs = seeds if settles(seeds) else first_number(settles, seeds + 1) or MOST_SEEDS
        if needs > seeds:
            found.append(Shortfall(number, claim, needs))
    return tuple(found)


def _planned_seeds(study: Study) -> int:
    return len(study.trial_seeds) if study.until_settled is None else study.until_settled.most


@cache
def _settled(claims: tuple[Claim, ...], seeds: int) -> list[bool]:
    """Which of these claims so many seeds settle if every one of them is as clear as it can be."""
    strengths = [clearest(claim, seeds) for claim in claims]
    levels = claim_levels(strengths, [claim.primary for claim in claims])
    return [p <= level.claim for p, level in zip(strengths, levels, strict=True)]


def describe_shortfalls(study: Study, *, quick: bool = False) -> str:
    """All of them in one sentence; empty if there are none."""
    found = list_shortfalls(study, quick=quick)
    if not found:
        return ""
    seeds = _planned_seeds(study)
    which = ", ".join(str(short.number) for short in found)
    every = len(found) == len(study.claims) > 1
    claims = "any claim" if every else f"claim {which}" if len(found) == 1 else f"claims {which}"
    most = max(short.needs for short in found)
    return f"{counted(seeds, 'seed')} cannot settle {claims}, however clear the results: at least {most} are needed"


def is_one_arm(claim: Claim) -> bool:
    """Whether it rests on the numbers of single arms."""
    chain = claim.op in ("ordered", *ALONG_AN_AXIS, *BEST)
    return not (claim.compares or chain)


def clearest(claim: Claim, seeds: int) -> float:
    """The smallest two-sided p that so many seeds can give."""
    if claim.effects is not None:
        return 2 * clearest_component(seeds)
    if not is_one_arm(claim) or claim.assume == "symmetric":
        return 2 * clearest_pairs(seeds)
    flag = claim.metric == "diverged" or (claim.metric in METRICS and METRICS[str(claim.metric)].kind == "flag")
    share = 0.5
    if flag and isinstance(claim.value, float):
        share = min(claim.value, 1 - claim.value)  # whichever way is settled first
    return 2 * p_value(share_evidence(seeds, seeds, share))

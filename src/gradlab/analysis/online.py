"""Claims over a whole project: e-values from the deciding rules, and e-LOND over claims that arrive one after another.

Holm shares 5 % among the claims of one study. A project freezes claims for months, and nobody knows how many there will
be, so over the project claim number t, counted in the order of freezing, is settled as soon as its e-value reaches

    e ≥ 2/α_t,    α_t = α γ_t (R + 1),    γ_t = 1/(2.11 (t + 1) ln²(t + 1))

with R claims settled before it and Σ γ_t ≤ 1 (e-LOND; Xu and Ramdas 2024). The 2 is for the two ways in which
a claim can be settled falsely: as holding and as not holding. The expected share of false ones among all settled claims
is then at most α, however the claims depend on each other, whenever each of them is looked at, and whatever was decided
because of earlier results: a claim that is settled falsely adds at most 1/(R + 1) to the share, and P(e ≥ 1/x) ≤ x.
What is settled stays settled; later claims change nothing of it.

An e-value is a number whose mean is at most 1 if the hypothesis is true, at whatever moment one stops. The rules of one
arm give p = 1/E with such an E at every look. Those of two arms give a p-value that is valid at every look, and
κ p^(κ−1) is an e-value of it for any κ between 0 and 1, as its mean over uniform p is 1; κ = 0.05 keeps most of what is
strong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gradlab.analysis.claims import claim_test
from gradlab.analysis.claims.power import clearest, is_one_arm
from gradlab.analysis.claims.reading import Test
from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA
from gradlab.analysis.rules.base import MOST_SEEDS, first_number
from gradlab.facts import Fact
from gradlab.spec.claims import Claim

Settled = Literal["holds", "does not hold", "no difference"]
WAYS: dict[str, Settled] = {
    "reproduced": "holds", "not reproduced": "does not hold", "no difference": "no difference",
}  # fmt: skip
"""Outcome of a verdict -> how the claim is settled over the project."""
LARGEST = 1e300
KAPPA = 0.05
SUM = 2.11
"""Of 1/((t + 1) ln²(t + 1)) over all t, rounded up."""


@dataclass(frozen=True)
class Evidence:
    """e-values against a claim's contrary, against the claim, and against a difference that matters."""

    holds: float
    fails: float
    same: float

    def of(self, way: Settled) -> float:
        """The one that a way of settling the claim rests on."""
        return {"holds": self.holds, "does not hold": self.fails, "no difference": self.same}[way]


def calibrate(p: float) -> float:
    """The e-value of a p-value."""
    return float(min(KAPPA * max(p, 1 / LARGEST) ** (KAPPA - 1), LARGEST))


def evidence(measured: Measured) -> list[Evidence | None]:
    """The e-values of every claim of a study, in its order; None where nothing is tested."""
    tests = [claim_test(measured, claim) for claim in measured.study.claims]
    return [None if isinstance(test, Fact) else _of_test(test) for test in tests]


def _of_test(test: Test) -> Evidence:
    def e(p: float) -> float:
        return min(1 / max(p, 1 / LARGEST), LARGEST) if test.reciprocal else calibrate(p)

    return Evidence(e(test.holds), e(test.fails), e(test.same))


def needed_evidence(number: int, settled: int) -> float:
    """What the e-value of claim number t has to reach, with so many claims settled before."""
    return 2 * SUM * (number + 1) * math.log(number + 1) ** 2 / (ALPHA * (settled + 1))


def seeds_over_project(claim: Claim, number: int, settled: int) -> int:
    """The fewest seeds that can settle a claim over the project, however clear its results."""
    if claim.metric is None:
        return 0
    reciprocal = is_one_arm(claim) and claim.assume is None

    def enough(seeds: int) -> bool:
        p = clearest(claim, seeds) / 2
        return (1 / max(p, 1 / LARGEST) if reciprocal else calibrate(p)) >= needed_evidence(number, settled)

    return first_number(enough, 1) or MOST_SEEDS


def settle(number: int, settled: int, verdict: Verdict, found: Evidence | None) -> Settled | None:
    """How a claim is settled over the project: as its own study settles it, if the evidence is enough here as well."""
    way = WAYS.get(verdict.outcome)
    if way is None or found is None:
        return None
    return way if found.of(way) >= needed_evidence(number, settled) else None

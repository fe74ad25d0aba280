"""Seeds until the claims are settled: which groups are trained with more, and which claims are given up.

The seeds of a group are always the first of one sequence, 0, 1, 2, …, so what is known of a claim is a prefix of that
sequence, however many seeds other groups have. The rules hold for every prefix at once: the chance that a wrong verdict
is settled at any of them is at most 5 %. So it does not matter how rounds are cut, nor what else was seen before.

The next round follows from the results alone. A run that was killed trains nothing twice: it comes to the same rounds
again, and goes on where results are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradlab.analysis.claims import judge
from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.measured import Measured
from gradlab.words import counted

LONGEST_STEP = 0.5
"""A round adds at most this share of the seeds that a claim has: an estimate from few seeds is not worth more."""
SHORTEST_STEP = 1 / 8
"""A round adds at least this share, and at least two seeds: every round has its overhead."""
TOGETHER = 2
"""Claims that need up to so many times the seeds of the most promising one are trained for in the same round. The
others wait: what is settled before them makes their level of Holm larger."""


@dataclass(frozen=True)
class OpenClaim:
    """A claim that is not settled yet."""

    number: int
    """Counted from 1."""
    verdict: Verdict
    seeds: int
    """What it has: of its groups, the one with the fewest."""
    wanted: int | None
    """Seeds in all that would settle it if things go well; None: no number would."""

    @property
    def expected(self) -> str:
        """How many seeds it would take, in words."""
        most = self.verdict.needs_most
        if self.wanted is None:
            return "no number of seeds would settle it"
        if most is None:
            return f"it would take at least {self.wanted:,} seeds"
        return f"it would take {self.wanted:,} to {self.seeds + most:,} seeds"


@dataclass(frozen=True)
class Round:
    """What to train next."""

    number: int
    seeds: dict[str, int] = field(default_factory=dict)
    """Group -> seeds in all, of the groups that get more; empty if nothing is to be trained any more."""
    settled: int = 0
    open: tuple[OpenClaim, ...] = ()
    """Claims that more seeds may settle."""
    given_up: tuple[OpenClaim, ...] = ()
    """Claims that the most seeds would not settle."""

    @property
    def words(self) -> str:
        """`round 3: 9 of 12 claims settled, 2 open (40 seeds may settle them), 1 given up; now up to 24 seeds`."""
        claims = self.settled + len(self.open) + len(self.given_up)
        parts = [f"{self.settled} of {counted(claims, 'claim')} settled"]
        if self.open:
            wanted = max(claim.wanted or 0 for claim in self.open)
            parts.append(
                f"{len(self.open)} open ({wanted:,} seeds may settle {'it' if len(self.open) == 1 else 'them'})"
            )
        parts += [f"{len(self.given_up)} given up"] if self.given_up else []
        most = f"; now up to {counted(max(self.seeds.values()), 'seed')}" if self.seeds else ""
        return f"round {self.number}: {', '.join(parts)}{most}"


def next_round(measured: Measured, number: int = 1) -> Round:
    """Decide which groups are trained with more seeds."""
    rule = measured.study.until_settled
    assert rule is not None
    verdicts = judge(measured)
    unsettled = list(open_claims(measured, verdicts))
    settled = sum(verdict.outcome != "not tested" for verdict in verdicts) - len(unsettled)
    hopeful = [claim for claim in unsettled if claim.wanted is not None and claim.seeds < claim.wanted <= rule.most]
    given_up = tuple(claim for claim in unsettled if claim not in hopeful)
    seeds: dict[str, int] = {}
    if hopeful:
        soonest = min((claim.wanted or 0) - claim.seeds for claim in hopeful)
        for claim in hopeful:
            missing = (claim.wanted or 0) - claim.seeds
            if missing > TOGETHER * soonest:
                continue
            least, most = max(2, int(SHORTEST_STEP * claim.seeds)), max(2, int(LONGEST_STEP * claim.seeds))
            target = min(rule.most, claim.seeds + min(max(missing, least), most))
            for group in claim.verdict.groups:
                if len(measured.planned_seeds[group]) < target:
                    seeds[group] = max(target, seeds.get(group, 0))
    return Round(number, seeds, settled, tuple(hopeful), given_up)


def open_claims(measured: Measured, verdicts: Sequence[Verdict]) -> Iterator[OpenClaim]:
    """Claims that are not settled, or only in direction."""
    for number, verdict in enumerate(verdicts, 1):
        if verdict.outcome == "not settled" or (verdict.outcome == "direction only" and verdict.needs):
            seeds = min((len(measured.planned_seeds[group]) for group in verdict.groups), default=0)
            yield OpenClaim(number, verdict, seeds, None if verdict.needs is None else seeds + verdict.needs)


def price_open(measured: Measured, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The open claims as plain data, with the seconds on one core that settling each would take if things go well."""
    found = []
    for claim in open_claims(measured, verdicts):
        trial_seconds = sum(measured.entries[group].rough_seconds for group in claim.verdict.groups)
        known = claim.wanted is not None and not measured.plan.own_code
        seconds = trial_seconds * ((claim.wanted or 0) - claim.seeds) if known else None
        found.append({"claim": claim.number, "seeds": claim.seeds, "wanted": claim.wanted, "seconds": seconds})
    return found

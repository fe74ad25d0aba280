"""The scoreboard of several write-ups: their sentences, their numbers and our own statements, counted apart.

Every claim has its verdict, every published number its answer, every audit, known confound and conclusion its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradlab.analysis.claims.numbers import Comparison
from gradlab.analysis.claims.verdict import Verdict
from gradlab.audits.audit import Audit

HOLDS, DIRECTION, FAILS = "reproduced", "direction only", "not reproduced"


@dataclass(frozen=True)
class ScoredClaim:
    """One claim."""

    verdict: Verdict
    kept: Mapping[str, Any] | None = None
    """The verdict of the full run that comes with the package, where this run left the claim untested."""

    @property
    def own(self) -> bool:
        """Whether it is a statement of ours, not of the write-up."""
        return self.verdict.claim.origin is None

    @property
    def outcome(self) -> str:
        """The outcome of this run, or else of the full run."""
        return str(self.verdict.outcome if self.kept is None else self.kept["verdict"])

    @property
    def words(self) -> str:
        """The verdict; for an untested claim also what the full run found, marked as such."""
        if self.kept is None:
            return self.verdict.words
        return f"{self.verdict.words} (full run, kept: {self.kept['words']})"

    @property
    def measured(self) -> str:
        """What was measured here, or else in the full run."""
        return self.verdict.measured if self.kept is None else f"full run: {self.kept['measured']}"

    @property
    def reason(self) -> str:
        """Why, in one sentence."""
        return self.verdict.reason if self.kept is None else f"{self.verdict.reason}; full run: {self.kept['reason']}"


@dataclass(frozen=True)
class ScoredNumber:
    """One published number."""

    row: Comparison
    kept: Mapping[str, Any] | None = None
    """What the full run found, where the budget of this run was reduced."""

    @property
    def words(self) -> str:
        """Whether it is consistent; for an untested number also what the full run found, marked as such."""
        return self.row.outcome if self.kept is None else f"not tested (full run, kept: {self.kept['outcome']})"

    @property
    def expected(self) -> str:
        """Where a new seed would fall."""
        return self.row.expected if self.kept is None else f"full run: {self.kept['expected']}"


@dataclass(frozen=True)
class ScoredStudy:
    """One study of a write-up: its audit, its claims and its published numbers."""

    writeup: str
    study: str
    role: str
    """`as published` or `controlled`."""
    question: str
    audit: Audit | None
    expected_unfair: bool
    seeds: str
    trials: int
    lines: tuple[ScoredClaim, ...]
    numbers: tuple[ScoredNumber, ...] = ()

    @property
    def sentences(self) -> tuple[ScoredClaim, ...]:
        """Claims of the write-up."""
        return tuple(line for line in self.lines if not line.own)

    @property
    def statements(self) -> tuple[ScoredClaim, ...]:
        """Statements of our own."""
        return tuple(line for line in self.lines if line.own)

    @property
    def as_expected(self) -> bool:
        """Whether the audit came out as it should: one study is there to fail it."""
        return self.audit is None or self.audit.fair != self.expected_unfair


@dataclass(frozen=True)
class Shown:
    """A known confound with the claims that show it."""

    writeup: str
    what: str
    by: tuple[tuple[str, ScoredClaim], ...]
    """(study, claim)"""


@dataclass(frozen=True)
class Judged:
    """A conclusion of a write-up, in our words, with the claims that speak for it and those that limit it."""

    writeup: str
    says: str
    rests_on: tuple[tuple[str, ScoredClaim], ...]
    limited_by: tuple[tuple[str, ScoredClaim], ...]

    @property
    def stands(self) -> str:
        """What is left of it, from the verdicts."""
        outcomes = [line.outcome for _, line in self.rests_on]
        limits = [line for _, line in self.limited_by if line.outcome == HOLDS]
        if not outcomes or set(outcomes) <= {"not tested"}:
            return "is not tested"
        if all(outcome == HOLDS for outcome in outcomes):
            return "stands, with limits" if limits else "stands"
        if FAILS in outcomes:
            return "stands in part" if HOLDS in outcomes else "does not stand"
        return "stands in part" if HOLDS in outcomes else "is not settled"


@dataclass(frozen=True)
class Scoreboard:
    """All of it."""

    titles: Mapping[str, str]
    """Write-up -> its title."""
    entries: tuple[ScoredStudy, ...]
    confounds: tuple[Shown, ...]
    quick: bool
    command: str
    seconds: float
    failed: int = 0
    """Trials that failed."""
    stopped: bool = False
    conclusions: tuple[Judged, ...] = ()

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """How many sentences of the write-ups, numbers of theirs and statements of ours came out how."""
        found: dict[str, Counter[str]] = {"sentences": Counter(), "numbers": Counter(), "statements": Counter()}
        for entry in self.entries:
            found["sentences"].update(line.verdict.outcome for line in entry.sentences)
            found["numbers"].update(number.row.outcome for number in entry.numbers)
            found["statements"].update(line.verdict.outcome for line in entry.statements)
        return {name: dict(counter.most_common()) for name, counter in found.items()}

    @property
    def incomparable(self) -> dict[str, int]:
        """Why published numbers are not comparable -> how many."""
        rows = (number.row for entry in self.entries for number in entry.numbers)
        return dict(Counter(row.incomparable for row in rows if row.incomparable is not None))

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "quick": self.quick,
            "command": self.command,
            "seconds": self.seconds,
            "counts": self.counts,
            "not_comparable": self.incomparable,
            "studies": [_study_json(entry) for entry in self.entries],
            "confounds": [
                {"write_up": shown.writeup, "what": shown.what, "shown_by": _lines_json(shown.by)}
                for shown in self.confounds
            ],
            "conclusions": [
                {
                    "write_up": judged.writeup,
                    "says": judged.says,
                    "stands": judged.stands,
                    "rests_on": _lines_json(judged.rests_on),
                    "limited_by": _lines_json(judged.limited_by),
                }
                for judged in self.conclusions
            ],
        }


def _study_json(entry: ScoredStudy) -> dict[str, Any]:
    return {
        "write_up": entry.writeup,
        "study": entry.study,
        "role": entry.role,
        "question": entry.question,
        "same_setup_except_factor": None if entry.audit is None else entry.audit.fair,
        "expected_unfair": entry.expected_unfair,
        "audit": None if entry.audit is None else entry.audit.answer,
        "cannot_attribute": [] if entry.audit is None else list(entry.audit.limits),
        "claims": [
            {**line.verdict.to_json(), "full_run": None if line.kept is None else dict(line.kept)}
            for line in entry.lines
        ],
        "numbers": [
            {**number.row.to_json(), "full_run": None if number.kept is None else dict(number.kept)}
            for number in entry.numbers
        ],
    }


def _lines_json(lines: tuple[tuple[str, ScoredClaim], ...]) -> list[dict[str, Any]]:
    return [{"study": study, "claim": line.verdict.claim.text, "verdict": line.words} for study, line in lines]

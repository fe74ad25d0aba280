"""The scoreboard of several write-ups: every claim with its verdict, every audit, every known confound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradlab.analysis.claims.verdict import Verdict
from gradlab.audits.audit import Audit


@dataclass(frozen=True)
class ScoredClaim:
    """One claim."""

    verdict: Verdict
    kept: Mapping[str, Any] | None = None
    """The verdict of the full run that comes with the package, where this run left the claim untested."""

    @property
    def words(self) -> str:
        """The verdict; beside an untested claim what the full run found, marked as such."""
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
class ScoredStudy:
    """One study of a write-up: its audit and its claims."""

    writeup: str
    study: str
    role: str
    """`as published` or `controlled`."""
    question: str
    audit: Audit | None
    expected_unfair: bool
    seeds: int
    trials: int
    lines: tuple[ScoredClaim, ...]

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

    @property
    def counts(self) -> dict[str, int]:
        """How many claims came out how, by the words of their outcome."""
        found: dict[str, int] = {}
        for entry in self.entries:
            for line in entry.lines:
                found[line.verdict.outcome] = found.get(line.verdict.outcome, 0) + 1
        return found

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "quick": self.quick,
            "command": self.command,
            "seconds": self.seconds,
            "counts": self.counts,
            "studies": [
                {
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
                }
                for entry in self.entries
            ],
            "confounds": [
                {
                    "write_up": shown.writeup,
                    "what": shown.what,
                    "shown_by": [
                        {"study": study, "claim": line.verdict.claim.text, "verdict": line.words}
                        for study, line in shown.by
                    ],
                }
                for shown in self.confounds
            ],
        }

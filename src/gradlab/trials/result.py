"""A trial with its outcome, or with the error that prevented one. Workers return it and the store keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradlab.trials.outcome import Outcome
from gradlab.trials.trial import TrialLabel

Status = Literal["done", "diverged", "failed"]


@dataclass(frozen=True)
class TrialResult:
    """The result of one trial."""

    trial: TrialLabel
    outcome: Outcome | None
    error: str | None = None
    seconds: float = 0.0
    """Wall time, including probes and evaluation."""
    digest: str = ""
    """Hash of the outcome without its wall times."""

    @property
    def status(self) -> Status:
        """`done`, `diverged` (an outcome too) or `failed` (no outcome)."""
        return self.outcome.status if self.outcome is not None else "failed"

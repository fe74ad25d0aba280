"""What running a trial gives, whoever runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gradlab.engines.base import Engine
from gradlab.trial.outcome import Outcome
from gradlab.trial.setup import prepare
from gradlab.trial.trial import Trial

Status = Literal["done", "diverged", "failed"]


@dataclass(frozen=True)
class TrialResult:
    """A trial with its outcome, or with the error that kept it from having one."""

    trial: Trial
    outcome: Outcome | None
    error: str | None = None

    @property
    def status(self) -> Status:
        """Done, diverged (an outcome) or failed (none)."""
        return self.outcome.status if self.outcome is not None else "failed"


def run_trial(trial: Trial, tick: Callable[[int], None] | None = None) -> TrialResult:
    """Prepare and train one trial; a failure is recorded, it does not stop the others."""
    try:
        engine: Engine = trial.config.train.engine.build(trial.catalog)
        return TrialResult(trial, engine.train(prepare(trial), tick))
    except Exception as error:
        return TrialResult(trial, None, f"{type(error).__name__}: {error}")

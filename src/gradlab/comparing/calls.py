"""Calls a user's training function for every arm and seed, and turns what it returns into results."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Generator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from time import perf_counter
from typing import Any

from gradlab.comparing.planning import Arguments, Train
from gradlab.comparing.returned import LOOKING, names_in, outcome_of
from gradlab.engines.torch.require import has_torch, require_torch
from gradlab.errors import GradlabError, InvalidInput, described, nearest
from gradlab.plans.code import CodePlan
from gradlab.runs.monitor import Monitor, Stopped
from gradlab.trials.digest import digest
from gradlab.trials.outcome import Outcome
from gradlab.trials.result import TrialResult
from gradlab.trials.seeding import seeded
from gradlab.trials.trial import TrialLabel

LONGEST = 400
"""Letters of an error that are kept."""


class Calls:
    """Calls the function, trial by trial, in the caller's own thread: frameworks bring their own parallelism."""

    def __init__(self, plan: CodePlan, train: Train, arguments: Arguments) -> None:
        self._study, self._trials = plan.study, {trial.id: trial for trial in plan.trials}
        self._train, self._arguments = train, arguments
        text = plan.study.code.text
        if has_torch() and ("torch" in text or not text.strip()):  # of what was typed there is no text
            require_torch()  # so that it is seeded before the first call, wherever the function imports it
        self._inside = False
        self.names: dict[str, tuple[str, ...]] = {}
        """Arm -> what its layers are called, where a watch was returned."""

    def start(self, ids: Collection[str], monitor: Monitor) -> Generator[list[TrialResult]]:
        """The results of these trials, one by one."""
        for trial in (self._trials[identity] for identity in ids):
            with suppress(Stopped):
                monitor.began(trial)
                try:
                    result = self._called(trial, monitor)
                finally:
                    monitor.ended(trial)
                yield [result]
                if result.outcome is not None:
                    self._check_metric(result.outcome)

    def _check_metric(self, outcome: Outcome) -> None:
        """A misspelled headline is told after the first trial, which is kept, and not after all of them."""
        headline = self._study.headline
        if headline is None or headline.at.layer is not None or headline.metric in outcome.metrics:
            return
        there = list(outcome.metrics)
        raise InvalidInput(
            f"metric: {headline.metric!r} is not what the function returns; it returns {', '.join(there) or 'nothing'}"
            f"{nearest(headline.metric, there)}"
        )

    def interrupt(self) -> None:
        """Ctrl-C: the trial in training is given up at once; those that are finished are kept."""
        if self._inside:
            raise KeyboardInterrupt

    def _called(self, trial: TrialLabel, monitor: Monitor) -> TrialResult:
        args, kwargs = self._arguments[trial.group]
        begun, returned, error, before = perf_counter(), None, None, set(LOOKING)
        try:
            self._inside = True
            with seeded(trial.seed):
                returned = self._train(*_own(args), **_own(kwargs), seed=trial.seed)
        except KeyboardInterrupt:
            if not monitor.stopping:
                raise
        except (Exception, SystemExit) as fault:
            error = _told(fault)
        finally:
            self._inside = False
            for left in set(LOOKING) - before:
                left.close()
        if monitor.stopping:  # a function may catch Ctrl-C and return what it has: that is not a finished trial
            raise Stopped
        took = perf_counter() - begun
        if error is None and (names := names_in(returned)):
            self.names[trial.group] = names
        # what cannot be kept now never can: that is no fault of this trial, and the error goes to the caller
        outcome = outcome_of(returned) if error is None else None
        return TrialResult(trial, outcome, error, took, digest(trial.id, outcome, error))


def _own(settings: Any) -> Any:
    """A copy for this call: a function that changes its settings changes nobody else's."""
    try:
        return deepcopy(settings)
    except Exception:  # what cannot be copied is handed over as it is
        return settings


def _told(fault: BaseException) -> str:
    """An error and where it was raised, in one line."""
    if isinstance(fault, GradlabError):
        return str(fault)
    frames = traceback.extract_tb(fault.__traceback__)[1:]
    place = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name}, {frames[-1].name})" if frames else ""
    words = described(fault)
    return f"{words if len(words) <= LONGEST else words[:LONGEST] + ' …'}{place}"

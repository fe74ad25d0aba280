"""The executor interface: bundles of trials in, results out.

A worker, wherever it lives, is one call of `run_bundle`: a plain function of trials (which can be pickled) that returns
results (which can be pickled). An executor decides only where and when these calls happen; nothing it does can change a
bit of a result. A Ray executor is one more file that sends `run_bundle` elsewhere.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar, Literal

from gradlab.engines.base import Engine, Tick
from gradlab.errors import described
from gradlab.execute.watch import Stopped, Watch
from gradlab.parts import Part
from gradlab.trial.digest import digest
from gradlab.trial.outcome import Outcome
from gradlab.trial.setup import prepare
from gradlab.trial.trial import Trial, TrialLabel

Status = Literal["done", "diverged", "failed"]
Bundle = tuple[Trial, ...]
"""Trials that one worker runs in one go, so that handing them over costs little beside them."""


@dataclass(frozen=True)
class TrialResult:
    """A trial with its outcome, or with the error that kept it from having one."""

    trial: TrialLabel
    outcome: Outcome | None
    error: str | None = None
    seconds: float = 0.0
    """From taking it up to its end, probes and evaluation included."""
    digest: str = ""
    """A hash of all it gave, wall times aside."""

    @property
    def status(self) -> Status:
        """Done, diverged (an outcome) or failed (none)."""
        return self.outcome.status if self.outcome is not None else "failed"


class Executor(Part):
    """Runs bundles of trials. Results come as they are finished, in any order."""

    part: ClassVar[str] = "executor"
    apart: ClassVar[bool] = False
    """Whether trials run in other processes, so that one that kills its process kills no more."""

    @abstractmethod
    def run(self, bundles: Sequence[Bundle], watch: Watch) -> Generator[list[TrialResult]]:
        """Every trial once; nothing further once `watch` says to stop, and what had finished by then."""

    def width(self, trials: int) -> int:
        """How many of so many trials run at a time."""
        return 1


def workers_for(trials: int, wanted: int | None) -> int:
    """As many workers as wanted or as there are cores, but no more than trials."""
    return max(1, min(wanted or os.cpu_count() or 1, trials))


def run_trial(trial: Trial, tick: Tick | None = None) -> TrialResult:
    """Prepare and train one trial; a failure is recorded, it does not stop the others."""
    start = perf_counter()
    try:
        engine: Engine = trial.config.train.engine.build(trial.catalog)
        outcome, error = engine.train(prepare(trial), tick), None
    except (KeyboardInterrupt, GeneratorExit, Stopped):
        raise
    except BaseException as fault:  # a part of the user's may call sys.exit, or raise what it likes
        outcome, error = None, described(fault)
    return TrialResult(trial, outcome, error, perf_counter() - start, digest(trial.id, outcome, error))


def run_bundle(bundle: Bundle, watch: Watch) -> list[TrialResult]:
    """The trials of a bundle one after the other; those that finished, if it is stopped on the way."""
    finished: list[TrialResult] = []
    with suppress(Stopped):
        for trials in side_by_side(bundle):
            for trial in trials:
                watch.began(trial)
            try:
                finished += run_together(trials, [_ticker(trial, watch) for trial in trials])
            finally:
                for trial in trials:
                    watch.ended(trial)
    return finished


def side_by_side(bundle: Sequence[Trial]) -> list[list[Trial]]:
    """The trials of a bundle as their engines like to be handed them: most alone, tiny networks several at once."""
    groups: list[list[Trial]] = []
    open_groups: list[tuple[list[Trial], Engine, int]] = []
    for trial in bundle:
        engine: Engine = trial.config.train.engine.build(trial.catalog)
        most = engine.side_by_side(trial.config, trial.catalog)
        for group, owner, limit in open_groups if most > 1 else ():
            if len(group) < limit and owner == engine and owner.alike(group[0].config, trial.config):
                group.append(trial)
                break
        else:
            groups.append([trial])
            if most > 1:
                open_groups = [*open_groups[-3:], (groups[-1], engine, most)]
    return groups


def run_together(trials: Sequence[Trial], ticks: Sequence[Tick | None]) -> list[TrialResult]:
    """Trials that one engine call can train; if anything goes wrong, one by one, so that a failure has one owner."""
    if len(trials) > 1:
        start = perf_counter()
        engine: Engine = trials[0].config.train.engine.build(trials[0].catalog)
        try:
            outcomes = engine.train_together([prepare(trial) for trial in trials], ticks)
        except (KeyboardInterrupt, GeneratorExit, Stopped):
            raise
        except BaseException:  # one of them fails: which, its own call will say
            return [run_trial(trial, tick) for trial, tick in zip(trials, ticks, strict=True)]
        each = (perf_counter() - start) / len(trials)
        return [
            TrialResult(trial, outcome, None, each, digest(trial.id, outcome, None))
            for trial, outcome in zip(trials, outcomes, strict=True)
        ]
    return [run_trial(trial, tick) for trial, tick in zip(trials, ticks, strict=True)]


def _ticker(trial: Trial, watch: Watch) -> Callable[[int, float], None]:
    return lambda steps, loss: watch.tick(trial, steps, loss)

"""The work of a worker, wherever it runs: run a bundle of trials and return their results.

`run_bundle` is a plain function from trials to results; both can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter

from gradlab.engines.base import Engine, Tick
from gradlab.errors import described
from gradlab.runs.monitor import Monitor, Stopped
from gradlab.trials.outcome import TrialResult, digest
from gradlab.trials.setup import prepare
from gradlab.trials.trial import Trial

Bundle = tuple[Trial, ...]
"""Trials that one worker runs in one call, so that the overhead of the call is negligible."""


def run_trial(trial: Trial, tick: Tick | None = None) -> TrialResult:
    """Prepare and train one trial; a failure is recorded and does not stop the others."""
    start = perf_counter()
    try:
        engine: Engine = trial.config.train.engine.build(trial.catalog)
        outcome, error = engine.train(prepare(trial), tick), None
    except (KeyboardInterrupt, GeneratorExit, Stopped):
        raise
    except BaseException as fault:  # a user part may call sys.exit, or raise anything
        outcome, error = None, described(fault)
    return TrialResult(trial, outcome, error, perf_counter() - start, digest(trial.id, outcome, error))


def run_bundle(bundle: Bundle, monitor: Monitor) -> list[TrialResult]:
    """Run the trials of a bundle one after the other; if stopped, return those that have finished."""
    finished: list[TrialResult] = []
    with suppress(Stopped):
        for trials in group_trials(bundle):
            for trial in trials:
                monitor.began(trial)
            try:
                finished += run_together(trials, [_ticker(trial, monitor) for trial in trials])
            finally:
                for trial in trials:
                    monitor.ended(trial)
    return finished


def group_trials(bundle: Sequence[Trial]) -> list[list[Trial]]:
    """Group a bundle's trials for `train_together`: most are alone, tiny networks several per call."""
    groups: list[list[Trial]] = []
    open_groups: list[tuple[list[Trial], Engine, int]] = []
    for trial in bundle:
        engine: Engine = trial.config.train.engine.build(trial.catalog)
        most = engine.group_size(trial.config, trial.catalog)
        for group, owner, limit in open_groups if most > 1 else ():
            if len(group) < limit and owner == engine and owner.can_group(group[0].config, trial.config):
                group.append(trial)
                break
        else:
            groups.append([trial])
            if most > 1:
                open_groups = [*open_groups[-3:], (groups[-1], engine, most)]
    return groups


def run_together(trials: Sequence[Trial], ticks: Sequence[Tick | None]) -> list[TrialResult]:
    """Train trials in one engine call; if anything fails, one by one, so that the error belongs to one trial."""
    if len(trials) > 1:
        start = perf_counter()
        engine: Engine = trials[0].config.train.engine.build(trials[0].catalog)
        try:
            outcomes = engine.train_together([prepare(trial) for trial in trials], ticks)
        except (KeyboardInterrupt, GeneratorExit, Stopped):
            raise
        except BaseException:  # one of them fails; separate calls show which
            return [run_trial(trial, tick) for trial, tick in zip(trials, ticks, strict=True)]
        each = (perf_counter() - start) / len(trials)
        return [
            TrialResult(trial, outcome, None, each, digest(trial.id, outcome, None))
            for trial, outcome in zip(trials, outcomes, strict=True)
        ]
    return [run_trial(trial, tick) for trial, tick in zip(trials, ticks, strict=True)]


def _ticker(trial: Trial, monitor: Monitor) -> Callable[[int, float], None]:
    return lambda steps, loss: monitor.tick(trial, steps, loss)

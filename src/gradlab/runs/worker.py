"""The work of a worker, wherever it runs: run a bundle of trials, report to the monitor, return their results.

`run_bundle` is a plain function from trials to results; both can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from time import monotonic, perf_counter
from types import SimpleNamespace
from typing import Any

from gradlab.engines.base import Engine, Tick
from gradlab.errors import described
from gradlab.trials.outcome import TrialResult, digest
from gradlab.trials.setup import prepare
from gradlab.trials.trial import Trial, TrialLabel

Bundle = tuple[Trial, ...]
"""Trials that one worker runs in one call, so that the overhead of the call is negligible."""


class Stopped(BaseException):
    """Raised inside a trial when the run is stopping; such a trial has no result and is run again later."""


@dataclass(frozen=True)
class Live:
    """A trial in training: its progress and its latest loss."""

    trial: TrialLabel
    steps: int
    loss: float
    started: float


class Monitor:
    """Shared by all workers of one process. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._flag: Any = SimpleNamespace(value=0)  # a plain number: a signal handler may set it at any moment
        self._running: dict[str, Live] = {}
        self._environments: list[Mapping[str, Any]] = []

    def stop(self) -> None:
        """Start no further trial, and end those in training at their next tick."""
        self._flag.value = 1

    @property
    def stopping(self) -> bool:
        """Whether the run is stopping."""
        return bool(self._flag.value)

    def share_flag(self, flag: Any) -> None:
        """Keep in `flag.value`, which other processes see, whether the run is stopping."""
        before, self._flag = self._flag, flag
        flag.value |= before.value  # after the exchange: a signal in between is not lost

    def began(self, trial: TrialLabel) -> None:
        """Register a trial that a worker starts; raise `Stopped` if the run is stopping."""
        if self.stopping:
            raise Stopped
        self._running[trial.id] = Live(trial, 0, float("nan"), monotonic())

    def tick(self, trial: TrialLabel, steps: int, loss: float) -> None:
        """Record progress; raise `Stopped` if the run is stopping."""
        if self.stopping:
            raise Stopped
        before = self._running.get(trial.id)
        self._running[trial.id] = Live(trial, steps, loss, before.started if before else monotonic())

    def ended(self, trial: TrialLabel) -> None:
        """Unregister a trial that has finished or was abandoned."""
        self._running.pop(trial.id, None)

    def replace(self, running: Iterable[Live]) -> None:
        """Set the trials in training, for an executor whose workers report from other machines."""
        self._running = {live.trial.id: live for live in running}

    def meet(self, environment: Mapping[str, Any]) -> None:
        """Record that trials ran in another environment than the run's own, and were accepted."""
        if environment not in self._environments:
            self._environments.append(environment)

    @property
    def environments(self) -> tuple[Mapping[str, Any], ...]:
        """The other environments that trials ran in."""
        return tuple(self._environments)

    def running(self) -> tuple[Live, ...]:
        """Return the trials in training, oldest first."""
        return tuple(sorted(self._running.copy().values(), key=lambda live: live.started))


def run_trial(trial: Trial, tick: Tick | None = None) -> TrialResult:
    """Prepare and train one trial; a failure is recorded and does not stop the others."""
    if trial.job is not None:
        return trial.job.run(trial, tick)
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
        if trial.job is not None:
            groups.append([trial])
            continue
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


def call_isolated(isolated: bool, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return `function(*arguments, **options)`, computed in a new process if `isolated`.

    A user part that kills its process then does not kill this one.
    """
    if not isolated:
        return function(*arguments, **options)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments, **options).result()

"""The training loop, once for every engine. An engine only advances its network and reports its state.

    until the last step, or until the loss is not finite:
        advance     to the next step at which something is due
        evaluate    on validation and test data
        measure     run the probes on the probe batch
        keep        a snapshot of the parameters
        tick        report the step and the latest loss

Evaluation, probes and snapshots read the parameters and change nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import EnvironmentFault
from gradlab.network.norms.base import Running
from gradlab.trials.measuring import evaluate, evaluation_is_due, evaluation_steps, measure
from gradlab.trials.outcome import Outcome
from gradlab.trials.recorder import Recorder
from gradlab.trials.setup import Setup

Array = NDArray[Any]
Tick = Callable[[int, float], None]
"""Called regularly with the number of steps done and the latest loss."""


@dataclass
class Stretch:
    """Consecutive steps: loss, correct answers and batch size of each. A loss that is not finite is the last one."""

    losses: Any = field(default_factory=list)
    correct: Any = field(default_factory=list)
    sizes: Any = field(default_factory=list)
    """Lists that grow by `add`, or whole arrays."""
    seconds: float | None = None
    """Their duration, if the trainer knows it better than a clock around the call."""

    def add(self, loss: float, correct: int, size: int) -> bool:
        """Append a step; False if its loss is not finite, so that it is the last."""
        self.losses.append(loss)
        self.correct.append(correct)
        self.sizes.append(size)
        return bool(np.isfinite(loss))


@dataclass(frozen=True)
class State:
    """A network between two steps, in Gradlab's parameter layout."""

    theta: Array
    """All parameters, flat."""
    running: Sequence[Running]
    """Running statistics of the norms, one entry per layer."""
    update: Array | None
    """The change of θ in the latest step; None before the first."""


class Trainer(ABC):
    """One trial in training: only the arithmetic of an engine."""

    longest: int = 20
    """Maximum number of steps per call of `advance`. After each call a run can report progress and stop."""

    @abstractmethod
    def advance(self, start: int, stop: int) -> Stretch:
        """Train the steps from `start` to `stop` − 1 (counted from 0); return early after a non-finite loss.

        Calls follow each other without gaps. The step with a non-finite loss changes no parameter.
        """

    @abstractmethod
    def state(self) -> State:
        """Return the current parameters, running statistics and latest update."""

    @abstractmethod
    def predict(self, x: Array) -> Array:
        """Return outputs of shape (n, output width) for inputs of shape (n, input width), in evaluation mode."""

    @abstractmethod
    def first_loss(self) -> float:
        """Return the loss of the first batch in training mode, without a step, for trials without training."""


def train(setup: Setup, trainer: Trainer, tick: Tick | None = None) -> Outcome:
    """Train one trial to its end, or to the step at which it diverges."""
    return train_together([setup], [trainer], [tick])[0]


def train_together(setups: Sequence[Setup], trainers: Sequence[Trainer], ticks: Sequence[Tick | None]) -> list[Outcome]:
    """Train several trials with the same steps and moments together, from one stop to the next."""
    require_denormals()
    with np.errstate(all="ignore"):  # overflow is an outcome here, not a warning
        trials = [_Trial(*each) for each in zip(setups, trainers, ticks, strict=True)]
        for trial in trials:
            trial.begin()
        done = 0
        for stop in _stops(setups[0], trainers[0].longest):
            for trial in trials:
                if not trial.diverged:
                    trial.advance(done, stop)
            if all(trial.diverged for trial in trials):
                break
            done = stop
        return [trial.outcome() for trial in trials]


class _Trial:
    """One trial with its records."""

    def __init__(self, setup: Setup, trainer: Trainer, tick: Tick | None) -> None:
        self._setup, self._trainer, self._tick = setup, trainer, tick
        self._record = Recorder(setup)

    @property
    def diverged(self) -> bool:
        return self._record.diverged_step is not None

    def begin(self) -> None:
        self._measure_and_keep(0)
        if self._setup.steps == 0:
            self._record.first_loss = self._trainer.first_loss()

    def advance(self, start: int, stop: int) -> None:
        began = perf_counter()
        found = self._trainer.advance(start, stop)
        seconds = perf_counter() - began if found.seconds is None else found.seconds
        if not self._record.add_steps(found.losses, found.correct, found.sizes, seconds):
            return
        if evaluation_is_due(self._setup, stop):
            self._record.add_evaluation(evaluate(self._setup, self._trainer.predict))
        self._measure_and_keep(stop)
        if self._tick is not None:
            self._tick(stop, self._record.latest_loss)

    def _measure_and_keep(self, step: int) -> None:
        """Measure and take a snapshot, if they are due after this step."""
        setup = self._setup
        if step not in setup.moments and step not in setup.snapshots:
            return
        state = self._trainer.state()
        if step in setup.moments:
            for number, measures in measure(setup, step, state.theta, state.running, state.update):
                self._record.add_layer(step, number, measures)
        if step in setup.snapshots:
            self._record.add_snapshot(state.theta, state.running)

    def outcome(self) -> Outcome:
        state = self._trainer.state()
        return self._record.outcome(state.theta, state.running)


def _stops(setup: Setup, longest: int) -> list[int]:
    """Return the steps after which something is due: measures, snapshots, evaluations, a tick every `longest` steps."""
    due = {*setup.moments, *setup.snapshots, *evaluation_steps(setup), setup.steps}
    due |= set(range(longest, setup.steps + 1, longest))
    return sorted(step for step in due if step > 0)


def require_denormals() -> None:
    """Raise if this thread flushes denormal numbers to zero.

    The vanishing values of a plain deep network are denormal float32 numbers. Flushing them changes results, and some
    libraries enable it for the thread that loads them.
    """
    if np.float32(1e-38) * np.float32(0.01) == 0:
        raise EnvironmentFault(
            "this thread flushes denormal numbers to zero, so vanishing gradients would be wrong; something "
            "loaded into this process enabled it (torch.set_flush_denormal, or a library built with "
            "-ffast-math): disable it, or run gradlab in a separate process"
        )

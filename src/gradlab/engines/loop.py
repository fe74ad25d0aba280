"""The training loop, once for every engine. An engine only advances its network and reports its state.

    until the last step, until the loss is not finite, or until early stopping ends it:
        advance     to the next step at which something is due
        evaluate    on validation and test data
        react       after an epoch, if asked for: the schedule changes the rate, early stopping may end training
        measure     run the probes on the probe batch
        keep        a snapshot of the parameters
        tick        report the step and the latest loss

Evaluation, probes and snapshots read the parameters and change nothing. What reacts looks at its metric after every
epoch, so that training does not depend on what is measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.arithmetic import require_denormals
from gradlab.network.norms import Running
from gradlab.spec.config import EpochMetric
from gradlab.spec.metric import split_of
from gradlab.trials.measuring import epoch_steps, evaluate, evaluation_is_due, evaluation_steps, measure, sharpness
from gradlab.trials.outcome import Outcome
from gradlab.trials.recorder import Recorder, Stopper
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
    rate_factor: float = 1.0
    """What multiplies `setup.rates`. The loop changes it between two calls if the schedule reacts to training."""

    @abstractmethod
    def advance(self, start: int, stop: int) -> Stretch:
        """Train the steps from `start` to `stop` − 1 (counted from 0); return early after a non-finite loss.

        Calls follow each other without gaps. The step with a non-finite loss changes no parameter.
        """

    @abstractmethod
    def state(self) -> State:
        """Return the current parameters, running statistics and latest update."""

    def parameters(self) -> tuple[Array, Sequence[Running]]:
        """Return copies of the current parameters and running statistics only, for who looks many times a second."""
        state = self.state()
        return state.theta, state.running

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
        courses = [Course(*each) for each in zip(setups, trainers, ticks, strict=True)]
        for course in courses:
            course.begin()
        done = 0
        for stop in stops_of(setups, trainers[0].longest):
            for course in courses:
                if not course.ended:
                    course.advance(done, stop)
            if all(course.ended for course in courses):
                break
            done = stop
        return [course.outcome() for course in courses]


class Course:
    """One trial on its way, with its records.

    Whoever drives it calls `begin`, then `advance` from step to step without gaps, and never across a step of
    `stops_of`: further stops change no bit, so a trial can be watched, paused and paced.
    """

    def __init__(self, setup: Setup, trainer: Trainer, tick: Tick | None) -> None:
        self._setup, self._trainer, self._tick = setup, trainer, tick
        self._record = Recorder(setup)
        train = setup.trial.config.train
        self._reaction = setup.schedule.reaction(train.lr)
        self._stopper = None if train.early_stopping is None else Stopper(train.early_stopping)
        self._outcome: Outcome | None = None

    @property
    def ended(self) -> bool:
        """Whether it diverged or was stopped early; one that reached its last step has not `ended`."""
        return self._record.diverged_step is not None or self._outcome is not None

    @property
    def diverged_step(self) -> int | None:
        """The step at which the loss was no longer finite."""
        return self._record.diverged_step

    def begin(self) -> None:
        """Measure and keep what is due before the first step."""
        self._measure_and_keep(0)
        if self._setup.steps == 0:
            self._record.first_loss = self._trainer.first_loss()

    def advance(self, start: int, stop: int) -> Stretch:
        """Train the steps from `start` to `stop` − 1, then do what is due; return the steps that were made."""
        began = perf_counter()
        found = self._trainer.advance(start, stop)
        seconds = perf_counter() - began if found.seconds is None else found.seconds
        if not self._record.add_steps(found.losses, found.correct, found.sizes, seconds):
            return found
        numbers: dict[str, float] = {}
        if evaluation_is_due(self._setup, stop):
            numbers = self._evaluate()
        stops = self._react(stop, numbers)
        if stops and not numbers:
            numbers = self._evaluate()
        self._note_best(stop, numbers)
        self._measure_and_keep(stop, ends_early=stops)
        if self._tick is not None:
            self._tick(stop, self._record.latest_loss)
        if stops:  # now, because networks that train together go on
            self._outcome = self.outcome()
        return found

    def _evaluate(self) -> dict[str, float]:
        numbers = evaluate(self._setup, self._trainer.predict)
        self._record.add_evaluation(numbers)
        return numbers

    def _react(self, step: int, numbers: Mapping[str, float]) -> bool:
        """Tell schedule and early stopping how the epoch ended; return whether training ends before the last step."""
        if step not in epoch_steps(self._setup):
            return False
        if self._reaction is not None:
            self._record.add_evaluation({"learning_rate": self._setup.rates[step - 1] * self._trainer.rate_factor})
            self._trainer.rate_factor = self._reaction.update(self._epoch_metric(self._reaction.metric, numbers))
        if self._stopper is None:
            return False
        stops = self._stopper.update(step, self._epoch_metric(self._stopper.metric, numbers))
        return stops and step < self._setup.steps

    def _epoch_metric(self, metric: EpochMetric, numbers: Mapping[str, float]) -> float:
        """A metric of the epoch that has just ended."""
        split = split_of(metric)
        if split == "train":
            return self._record.latest_epoch()[metric]
        return numbers[metric] if metric in numbers else evaluate(self._setup, self._trainer.predict, (split,))[metric]

    def _note_best(self, step: int, numbers: Mapping[str, float]) -> None:
        """Note the epoch as the best, and keep its parameters if they are asked for."""
        measure = self._setup.trial.config.measure
        if measure.best is None:
            return
        if split_of(measure.best) == "train" and (step in epoch_steps(self._setup) or step == self._setup.steps):
            numbers = self._record.latest_epoch()
        if self._record.is_best(numbers) and "best" in measure.weights:
            state = self._trainer.state()
            self._record.keep_best(state.theta, state.running)

    def _measure_and_keep(self, step: int, *, ends_early: bool = False) -> None:
        """Measure and take a snapshot, if they are due after this step."""
        setup = self._setup
        moment = setup.moments.get(step)
        if ends_early and setup.steps in setup.moments:
            moment = "end"
        keeps = step in setup.snapshots or (ends_early and setup.steps in setup.snapshots)
        if moment is None and not keeps:
            return
        state = self._trainer.state()
        if moment is not None:
            for number, measures in measure(setup, moment, state.theta, state.running, state.update):
                self._record.add_layer(step, number, measures)
            if setup.trial.config.measure.sharpness is not None:
                self._record.add_evaluation({"sharpness": sharpness(setup, state.theta, state.running)})
        if keeps:
            self._record.add_snapshot(state.theta, state.running)

    def outcome(self) -> Outcome:
        """All records so far, as the result of the trial."""
        if self._outcome is not None:
            return self._outcome
        state = self._trainer.state()
        return self._record.outcome(state.theta, state.running)


def stops_of(setups: Sequence[Setup], longest: int) -> list[int]:
    """Return the steps after which something is due: measures, snapshots, evaluations, a tick every `longest` steps."""
    setup = setups[0]
    due = {*setup.moments, *setup.snapshots, *evaluation_steps(setup), setup.steps}
    due |= set(range(longest, setup.steps + 1, longest))
    if any(_follows_epochs(each) for each in setups):
        due |= set(epoch_steps(setup))
    return sorted(step for step in due if step > 0)


def _follows_epochs(setup: Setup) -> bool:
    """Whether something happens after every epoch."""
    train, best = setup.trial.config.train, setup.trial.config.measure.best
    by_training = best is not None and split_of(best) == "train"
    return by_training or train.early_stopping is not None or setup.schedule.reaction(train.lr) is not None

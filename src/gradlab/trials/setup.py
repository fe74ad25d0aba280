"""The input of an engine: everything random is drawn, and every schedule is a list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.data.base import Dataset, Rows, SplitName, Task
from gradlab.data.preparing import load_dataset
from gradlab.errors import StudyError
from gradlab.network.initial import initial_parameters
from gradlab.network.inits import Init
from gradlab.network.losses import Loss
from gradlab.network.mlp import MLP
from gradlab.network.noises import Draws
from gradlab.optim.optimizers import Optimizer
from gradlab.optim.rule import UpdateRule, make_rule
from gradlab.optim.schedules import Horizon, Schedule, learning_rates
from gradlab.probes import Moment, Probe
from gradlab.scores import Score
from gradlab.spec.config import Config, Measure, Moments, Train
from gradlab.streams import Streams
from gradlab.trials.trial import Trial

Array = NDArray[Any]


@dataclass(frozen=True)
class Setup:
    """A realized trial. Two arms can be compared object by object before anything is trained."""

    trial: Trial
    mlp: MLP
    loss: Loss
    optimizer: Optimizer
    dataset: Dataset
    theta: Array
    """Initial parameters, flat, in the trial's precision."""
    schedule: Schedule
    rates: NDArray[np.float64]
    """Learning rate of every step, before the schedule reacts to training (most do not)."""
    batch: int
    steps: int
    steps_per_epoch: int
    moments: dict[int, Moment]
    """Step -> moment, for the steps after which the layers are measured."""
    snapshots: frozenset[int]
    """Steps after which the parameters are kept, the best epoch aside."""
    probes: tuple[Probe, ...]
    scores: tuple[Score, ...]
    """What is evaluated besides the loss: those of the study that a task of this kind has."""
    probe_x: Array
    probe_y: Array
    streams: Streams

    @property
    def dtype(self) -> Any:
        """The trial's precision."""
        return self.theta.dtype

    def may_end_after(self, step: int) -> bool:
        """Whether training may end after this step: the last one, or with early stopping any that ends an epoch."""
        stops = self.trial.config.train.early_stopping is not None and step % self.steps_per_epoch == 0
        return step == self.steps or stops

    def order(self, epoch: int) -> Rows:
        """The training rows in the order of an epoch (from 0); a full batch is not shuffled."""
        rows = self.dataset.train
        if self.batch >= len(rows):
            return rows
        return rows[self.streams.generator("order", epoch).permutation(len(rows))]

    def batches(self) -> Iterator[tuple[int, Rows]]:
        """Yield (step, rows) for every step; each epoch is a permutation, and its last batch may be smaller."""
        for step in range(self.steps):
            epoch, place = divmod(step, self.steps_per_epoch)
            if place == 0:
                order = self.order(epoch)
            yield step, order[place * self.batch : (place + 1) * self.batch]

    def draws(self, step: int) -> Draws | None:
        """The random numbers of a training step (from 0); None if the network draws none."""
        return Draws(self.streams, step) if self.mlp.noises else None

    def first_batch(self) -> tuple[Array, Array]:
        """Inputs and targets of the first batch of the first epoch."""
        return self.dataset.gather(self.order(0)[: self.batch], self.dtype)


def prepare(trial: Trial) -> Setup:
    """Realize a trial: load data, draw initial parameters, compute learning rates, choose the probe batch."""
    config, catalog = trial.config, trial.catalog
    streams = Streams(trial.root, trial.seed)
    split_owner = trial.seed if config.data.split == "per_trial" else None
    task: Task = config.data.build(catalog)
    dataset = load_dataset(config.data, task, streams, Streams(trial.root, split_owner))
    loss: Loss = config.train.loss.build(catalog)
    mlp = MLP.of(config.model, dataset.input_width, loss.outputs(dataset.output_width), catalog)
    horizon, batch = make_horizon(config.train, len(dataset.train))
    schedule: Schedule = config.train.schedule.build(catalog)
    dtype = np.dtype(config.train.precision)
    probe_x, probe_y = _probe_batch(config, task, dataset, streams, dtype)
    optimizer = make_rule(config.train, mlp, streams, catalog)
    theta = initial_parameters(mlp, config.model.init, streams, catalog).astype(dtype)
    init: Init = config.model.init.build(catalog)
    if init.calibrates:
        first = streams.generator("order", 0).permutation(len(dataset.train))[:batch]
        theta = init.calibrate(mlp, theta, dataset.gather(dataset.train[first], dtype)[0])
    return Setup(
        trial=trial,
        mlp=mlp,
        loss=loss,
        optimizer=optimizer,
        dataset=dataset,
        theta=optimizer.begin(theta) if isinstance(optimizer, UpdateRule) else theta,
        schedule=schedule,
        rates=learning_rates(schedule, config.train.lr, config.train.warmup, horizon),
        batch=batch,
        steps=horizon.steps,
        steps_per_epoch=horizon.steps_per_epoch,
        moments=moments_of(config.measure, horizon.steps),
        snapshots=frozenset(snapshot_steps(config.measure, horizon.steps)),
        probes=tuple(catalog.get("probe", name).parse({}) for name in _probe_names(trial)),  # type: ignore[misc]
        scores=_scores(trial, dataset),
        probe_x=probe_x,
        probe_y=probe_y,
        streams=streams,
    )


def make_horizon(train: Train, samples: int) -> tuple[Horizon, int]:
    """Return the horizon and the batch size for this number of training samples."""
    batch = samples if train.batch == "full" else min(train.batch, samples)
    per_epoch = -(-samples // batch)
    steps = train.steps if train.steps is not None else (train.epochs or 0) * per_epoch
    return Horizon(steps, per_epoch), batch


def moments_of(measure: Measure, steps: int) -> dict[int, Moment]:
    """Map the steps after which the layers are measured to their moments, in order."""
    steps_there = steps_of(measure.layers, steps, "measure.layers")
    return {step: "start" if step == 0 else "end" if step == steps else "during" for step in steps_there}


def snapshot_steps(measure: Measure, steps: int) -> list[int]:
    """Return the steps after which the parameters are kept, the best epoch aside."""
    return steps_of(tuple(when for when in measure.weights if when != "best"), steps, "measure.weights")


def steps_of(moments: Moments, steps: int, field: str) -> list[int]:
    """Return the steps that `start`, `log`, `end` and numbers stand for in a budget of `steps` steps."""
    chosen: set[int] = set()
    for when in moments:
        if when == "start":
            chosen.add(0)
        elif when == "end":
            chosen.add(steps)
        elif when == "log":
            chosen |= {2**power for power in range(steps.bit_length()) if 2**power <= steps}
        elif when > steps:
            raise StudyError(f"step {when} is beyond the budget of {steps} steps", where=field)
        else:
            chosen.add(when)
    return sorted(chosen)


def _probe_names(trial: Trial) -> tuple[str, ...]:
    chosen = trial.config.measure.probes
    return tuple(trial.catalog.names("probe")) if chosen == "all" else chosen


def _scores(trial: Trial, dataset: Dataset) -> tuple[Score, ...]:
    wanted = "values" if dataset.classes is None else "classes"
    made = [trial.catalog.make("score", name, {}) for name in trial.config.measure.scores]
    return tuple(score for score in made if score.targets == wanted)


def _probe_batch(config: Config, task: Task, dataset: Dataset, streams: Streams, dtype: Any) -> tuple[Array, Array]:
    """Return the samples on which the layers are measured: the same in all arms with the same data."""
    probe, generator = config.measure.probe, streams.generator("probe")
    if probe.batch == "fresh":
        drawn = task.fresh(generator, probe.size)
        assert drawn is not None, "the plan refuses this"
        return dataset.scaled(drawn[0], dtype), dataset.typed(drawn[1], dtype)
    split: SplitName = probe.batch
    rows = dataset.rows(split)
    chosen = generator.permutation(len(rows))[: probe.size]
    return dataset.gather(rows[chosen], dtype)

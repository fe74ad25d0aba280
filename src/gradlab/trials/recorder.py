"""Record a trial's steps, evaluations, layer measures and snapshots, and build its outcome."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradlab.network.norms import Running
from gradlab.spec.config import EarlyStopping, EpochMetric, Target
from gradlab.spec.metric import infer
from gradlab.trials.measuring import evaluate
from gradlab.trials.metrics import EVALUATED, HELD_OUT, METRICS, WHOLE, epoch_metrics, guessing_limit
from gradlab.trials.outcome import Curve, LayerTable, Outcome, Snapshot
from gradlab.trials.setup import Setup

# What is followed epoch by epoch: the best value of a metric, and when training ends early.


class BestSoFar:
    """The best value of a metric and the step after which it was reached. The first of equal values counts."""

    def __init__(self, metric: EpochMetric, min_delta: float = 0.0) -> None:
        self.metric = metric
        self.step: int | None = None
        """None before the first value."""
        self._way = 1 if infer(metric).better == "higher" else -1
        self._value, self._min_delta = 0.0, min_delta

    def update(self, step: int, value: float) -> bool:
        """Take a value; return whether it is the best so far. NaN never is."""
        if isnan(value) or (self.step is not None and (value - self._value) * self._way <= self._min_delta):
            return False
        self.step, self._value = step, value
        return True


class Stopper:
    """Counts epochs without improvement."""

    def __init__(self, rule: EarlyStopping) -> None:
        self._best, self._patience, self._waited = BestSoFar(rule.by, rule.min_delta), rule.patience, 0

    @property
    def metric(self) -> EpochMetric:
        """What it looks at."""
        return self._best.metric

    def update(self, step: int, value: float) -> bool:
        """Take the metric of the epoch that has ended; return whether training ends here."""
        self._waited = 0 if self._best.update(step, value) else self._waited + 1
        return self._waited >= self._patience


# Record a trial's steps, evaluations, layer measures and snapshots, and build its outcome.

Series = dict[str, tuple[NDArray[Any], NDArray[np.float64]]]
"""Metric -> (steps, values)."""
Numbers = Sequence[float] | NDArray[Any]
FINAL_STEPS = 10
"""`final_loss` is the mean training loss of this many last steps."""


class _Steps(NamedTuple):
    """Consecutive steps: one entry each."""

    losses: NDArray[np.float64]
    correct: NDArray[np.float64]
    sizes: NDArray[np.float64]
    seconds: NDArray[np.float64]


_NO_STEPS = _Steps(*(np.empty(0) for _ in range(4)))


class Recorder:
    """Collects the events of a trial and turns them into an `Outcome`."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.classes = setup.dataset.classes
        self.first_loss: float | None = None
        self.diverged_step: int | None = None
        self.steps = 0
        """Steps recorded so far."""
        self.latest_loss = math.nan
        """The latest step's training loss; NaN before the first."""
        self._stretches: list[_Steps] = []
        self._points: dict[str, list[tuple[int, float]]] = {}
        self._layers: list[tuple[int, int, str, float]] = []
        self._snapshots: list[Snapshot] = []
        self._best_snapshot: Snapshot | None = None
        self._evaluated = tuple(
            dict.fromkeys([*EVALUATED, *(f"{split}_{score.name}" for score in setup.scores for split in HELD_OUT)])
        )
        chosen = setup.trial.config.measure.best
        self._best = None if chosen is None else BestSoFar(chosen)

    def add_steps(self, losses: Numbers, correct: Numbers, sizes: Numbers, seconds: float) -> bool:
        """Record consecutive steps that took `seconds`. Return False if the last loss is not finite (divergence)."""
        if len(losses) == 0:
            return True
        if self.steps == 0:
            self.first_loss = float(losses[0])
        self.steps += len(losses)
        self.latest_loss = float(losses[-1])
        each = np.full(len(losses), seconds / len(losses))
        columns = [np.asarray(values, float) for values in (losses, correct, sizes)]
        self._stretches.append(_Steps(columns[0], columns[1], columns[2], each))
        if not math.isfinite(self.latest_loss):
            self.diverged_step = self.steps
            return False
        return True

    def add_evaluation(self, numbers: Mapping[str, float]) -> None:
        """Record numbers of an epoch after the latest step."""
        for metric, value in numbers.items():
            self._points.setdefault(metric, []).append((self.steps, value))

    def latest_epoch(self) -> dict[str, float]:
        """Return the training metrics of the latest epoch, as they will stand in the curves."""
        first = (self.steps - 1) // self.setup.steps_per_epoch * self.setup.steps_per_epoch
        taken: list[_Steps] = []
        count = 0
        while count < self.steps - first:
            taken.append(self._stretches[-1 - len(taken)])
            count += len(taken[-1].losses)
        pieces = map(np.concatenate, zip(*reversed(taken), strict=True))
        recorded = _Steps(*(piece[count - (self.steps - first) :] for piece in pieces))
        return {metric: float(values[0]) for metric, (_, values) in self._summed(recorded, np.array([0])).items()}

    def is_best(self, numbers: Mapping[str, float]) -> bool:
        """Whether the latest step is the best so far, by the metrics of its epoch; it is then noted as such."""
        if self._best is None or self._best.metric not in numbers:
            return False
        return self._best.update(self.steps, numbers[self._best.metric])

    def add_layer(self, step: int, number: int, measures: Mapping[str, float]) -> None:
        """Record the measures of one layer after a step."""
        self._layers.extend((step, number, measure, value) for measure, value in measures.items())

    def add_snapshot(self, theta: NDArray[Any], running: Sequence[Running]) -> None:
        """Keep the parameters after the latest step."""
        self._snapshots.append(self._snapshot(theta, running))

    def keep_best(self, theta: NDArray[Any], running: Sequence[Running]) -> None:
        """Keep the parameters after the latest step as the best so far, instead of earlier ones."""
        self._best_snapshot = self._snapshot(theta, running)

    def _snapshot(self, theta: NDArray[Any], running: Sequence[Running]) -> Snapshot:
        memory: dict[str, NDArray[Any]] = {}
        for number, statistics in enumerate(running, 1):
            if statistics is not None:
                mean, variance = statistics
                memory |= {f"layer{number}.running_mean": mean, f"layer{number}.running_variance": variance}
        return Snapshot(self.steps, theta.copy(), self.setup.mlp.layout, memory)

    # ------------------------------------------------------------------ outcome

    def outcome(self, theta: NDArray[Any], running: Sequence[Running]) -> Outcome:
        """Return all records as an outcome; `theta` and `running` are those after the last step."""
        if self.diverged_step is not None and "end" in self.setup.trial.config.measure.weights:
            self.add_snapshot(theta, running)  # divergence ended the trial early
        if self.diverged_step is None and not np.isfinite(theta).all():
            self.diverged_step = self.steps  # the last update itself overflowed
        recorded = _Steps(*map(np.concatenate, zip(_NO_STEPS, *self._stretches, strict=True)))
        series = self._epochs(recorded) | {
            metric: (np.array([at for at, _ in points]), np.array([value for _, value in points], float))
            for metric, points in self._points.items()
        }
        loss = Curve("loss", np.arange(1, self.steps + 1), recorded.losses)
        curves = (loss, *(Curve(metric, steps, values) for metric, (steps, values) in series.items()))
        columns = list(zip(*self._layers, strict=True)) or [(), (), (), ()]
        table = LayerTable(
            np.array(columns[0], int), np.array(columns[1], int), columns[2], np.array(columns[3], float)
        )
        status: Literal["done", "diverged"] = "done" if self.diverged_step is None else "diverged"
        best = self._best_snapshot
        if best is not None and all(kept.step != best.step for kept in self._snapshots):
            insort(self._snapshots, best, key=lambda kept: kept.step)
        metrics = self._metrics(recorded, series) | self._optional(series, theta, running)
        return Outcome(status, metrics, curves, table, theta, tuple(self._snapshots))

    def _epochs(self, recorded: _Steps) -> Series:
        """Running means on training data and training time of every epoch (the last may be shorter)."""
        finite = self.steps if self.diverged_step is None else self.diverged_step - 1
        if finite <= 0:
            return {}
        starts = np.arange(0, finite, self.setup.steps_per_epoch)
        ends = np.append(starts[1:], finite)

        found = self._summed(_Steps(*(values[:finite] for values in recorded)), starts)
        return {metric: (ends, values) for metric, (_, values) in found.items()}

    def _summed(self, recorded: _Steps, starts: NDArray[np.int64]) -> Series:
        """The running means and the time of the epochs that start at these places."""

        def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
            sums: NDArray[np.float64] = np.add.reduceat(values, starts)
            return sums

        samples = total(recorded.sizes)
        found = {"train_loss": (starts, total(recorded.losses * recorded.sizes) / samples)}
        if self.classes is not None:
            found["train_accuracy"] = (starts, total(recorded.correct) / samples)
        return found | {"epoch_seconds": (starts, total(recorded.seconds))}

    def _on_train_set(
        self, theta: NDArray[Any], running: Sequence[Running], series: Series
    ) -> dict[str, float | int | None]:
        """Loss and accuracy on all training samples after the last step, and how much worse the test is."""
        names = [name for name in WHOLE if name != "whole_train_accuracy" or self.classes is not None]
        if self.diverged_step is not None:
            return dict.fromkeys(names)
        mlp = self.setup.mlp
        p = mlp.layout.windows(theta)
        own = evaluate(self.setup, lambda x: mlp.forward(p, x, list(running), training=False)[0], ("train",))
        found: dict[str, float | int | None] = {name: own.get(name.removeprefix("whole_")) for name in names}
        kind = "loss" if self.classes is None else "accuracy"
        test = series[f"test_{kind}"][1][-1] if f"test_{kind}" in series else None
        gap = None if test is None or f"train_{kind}" not in own else float(own[f"train_{kind}"] - test)
        return found | {"generalization_gap": None if gap is None else gap if self.classes is not None else -gap}

    def _optional(
        self, series: Series, theta: NDArray[Any], running: Sequence[Running]
    ) -> dict[str, float | int | None]:
        """The metrics of `OPTIONAL` that this trial asks for."""
        found: dict[str, float | int | None] = {}
        epochs = self.setup.steps_per_epoch
        if self._best is not None:
            step = self._best.step
            found["best_epoch"] = None if step is None else step / epochs
            for metric in self._evaluated:
                steps, values = series.get(metric, (np.empty(0, int), np.empty(0)))
                there = values[steps == step]
                found[f"best_{metric}"] = float(there[0]) if len(there) else None
        if self.setup.trial.config.train.early_stopping is not None:
            found["epochs_trained"] = self.steps / epochs
        if "sharpness" in series:
            found["sharpness"] = float(series["sharpness"][1][-1]) if self.diverged_step is None else None
        if self.setup.trial.config.measure.train_set:
            found |= self._on_train_set(theta, running, series)
        return found

    def _metrics(self, recorded: _Steps, series: Series) -> dict[str, float | int | None]:
        setup, steps = self.setup, self.steps
        tail = recorded.losses[-FINAL_STEPS:]
        last = {metric: float(values[-1]) for metric, (_, values) in series.items()}
        if self.diverged_step is not None:  # the last evaluation describes parameters that no longer exist
            last = {}
        reached = self._reached(setup.trial.config.measure.target, recorded.losses, series)
        per_step = float(recorded.seconds.sum()) / steps if steps else None
        return {
            "initial_loss": self.first_loss,
            "final_loss": float(tail.mean()) if steps else None,
            "last_loss": self.latest_loss if steps else None,
            **{metric: last.get(metric) for metric in self._evaluated},
            "steps_to_target": reached,
            "epochs_to_target": None if reached is None else reached / setup.steps_per_epoch,
            "collapsed": self._detect_collapse(last),
            "diverged_step": self.diverged_step,
            "parameters": setup.mlp.layout.size,
            "flops": setup.mlp.flops(int(recorded.sizes.sum()), backward=True),
            "seconds_per_epoch": None if per_step is None else per_step * setup.steps_per_epoch,
        }

    def _detect_collapse(self, last: Mapping[str, float | None]) -> int | None:
        if self.classes is None:
            return None
        for metric in ("test_accuracy", "validation_accuracy", "train_accuracy"):
            accuracy, split = last.get(metric), METRICS[metric].split
            if accuracy is None or split is None:
                continue
            dataset = self.setup.dataset
            targets = dataset.targets[dataset.rows(split)]
            most_common = int(np.bincount(targets.astype(np.intp), minlength=1).max())
            if most_common == len(targets):
                return None  # one class only: nothing is better than guessing it
            return int(accuracy <= guessing_limit(most_common / len(targets), len(targets)))
        return None

    def _reached(self, target: Target | None, losses: NDArray[np.float64], series: Series) -> int | None:
        """The first step after which the target was met; None if never (censored)."""
        if target is None:
            return None
        if target.metric == "final_loss":
            window = min(FINAL_STEPS, self.steps)
            hits = np.flatnonzero(running_mean(losses, window) <= target.value)
            return int(hits[0]) + window if len(hits) else None
        if target.metric not in series:
            return None
        steps, values = series[target.metric]
        lower = epoch_metrics(self.setup.trial.catalog)[target.metric].better == "lower"
        hits = np.flatnonzero(values <= target.value if lower else values >= target.value)
        return int(steps[hits[0]]) if len(hits) else None


def count_correct(output: NDArray[Any], target: NDArray[Any]) -> int:
    """Count the rows whose largest output is at the target's class."""
    return int(np.count_nonzero(output.argmax(1) == target))


def running_mean(values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Means over windows of this length, exactly as `final_loss` is a mean over its last steps."""
    if length == 0:
        return np.empty(0)
    windows = np.lib.stride_tricks.sliding_window_view(values, length)
    means: NDArray[np.float64] = windows.mean(1)
    return means

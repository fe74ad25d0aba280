"""Record a trial's steps, evaluations, layer measures and snapshots, and build its outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gradlab.network.norms.base import Running
from gradlab.spec.config import EpochMetric, Target
from gradlab.spec.metric import Metric
from gradlab.trials.outcome import Curve, LayerTable, Outcome, Snapshot
from gradlab.trials.setup import Setup

Series = dict[str, tuple[NDArray[Any], NDArray[np.float64]]]
"""Metric -> (steps, values)."""
FINAL_STEPS = 10
"""`final_loss` is the mean training loss of this many last steps."""
COLLAPSED = 1.5
"""A classifier has collapsed if its accuracy is at most this many times chance."""


EVALUATED: tuple[str, ...] = get_args(EpochMetric)
DECLARED = (
    Metric.of("initial_loss", "loss", split="train"),
    Metric.of("final_loss", "loss", split="train"),
    Metric.of("last_loss", "loss", split="train"),
    Metric.of("train_loss", "loss", split="train"),
    Metric.of("train_accuracy", "accuracy", split="train"),
    Metric.of("validation_loss", "loss", split="validation"),
    Metric.of("validation_accuracy", "accuracy", split="validation"),
    Metric.of("test_loss", "loss", split="test"),
    Metric.of("test_accuracy", "accuracy", split="test"),
    Metric.of("steps_to_target", "steps", unit="steps"),
    Metric.of("epochs_to_target", "steps", unit="epochs"),
    Metric.of("collapsed", "flag"),
    Metric.of("diverged_step", "count", unit="steps"),
    Metric.of("parameters", "count"),
    Metric.of("flops", "size"),
    Metric.of("seconds_per_epoch", "time", unit="s"),
)
"""The metrics of a trial as a whole."""
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in DECLARED}


class Recorder:
    """Collects the events of a trial and turns them into an `Outcome`."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.classes = setup.dataset.classes
        self.first_loss: float | None = None
        self.diverged_step: int | None = None
        self._losses: list[float] = []
        self._correct: list[int] = []
        self._sizes: list[int] = []
        self._seconds: list[float] = []
        self._points: dict[str, list[tuple[int, float]]] = {}
        self._layers: list[tuple[int, int, str, float]] = []
        self._snapshots: list[Snapshot] = []

    @property
    def latest_loss(self) -> float:
        """The latest step's training loss; NaN before the first."""
        return self._losses[-1] if self._losses else math.nan

    @property
    def steps(self) -> int:
        """Number of steps recorded so far."""
        return len(self._losses)

    def add_steps(self, losses: list[float], correct: list[int], sizes: list[int], seconds: float) -> bool:
        """Record consecutive steps that took `seconds`. Return False if the last loss is not finite (divergence)."""
        if self._losses == [] and losses:
            self.first_loss = losses[0]
        self._losses += losses
        self._correct += correct
        self._sizes += sizes
        self._seconds += [seconds / max(len(losses), 1)] * len(losses)
        if losses and not math.isfinite(losses[-1]):
            self.diverged_step = len(self._losses)
            return False
        return True

    def add_evaluation(self, numbers: Mapping[str, float]) -> None:
        """Record an evaluation after the latest step."""
        for metric, value in numbers.items():
            self._points.setdefault(metric, []).append((self.steps, value))

    def add_layer(self, step: int, number: int, measures: Mapping[str, float]) -> None:
        """Record the measures of one layer after a step."""
        self._layers.extend((step, number, measure, value) for measure, value in measures.items())

    def add_snapshot(self, theta: NDArray[Any], running: Sequence[Running]) -> None:
        """Keep the parameters after the latest step."""
        memory: dict[str, NDArray[Any]] = {}
        for number, statistics in enumerate(running, 1):
            if statistics is not None:
                mean, variance = statistics
                memory |= {f"layer{number}.running_mean": mean, f"layer{number}.running_variance": variance}
        self._snapshots.append(Snapshot(self.steps, theta.copy(), self.setup.mlp.layout, memory))

    # ------------------------------------------------------------------ outcome

    def outcome(self, theta: NDArray[Any], running: Sequence[Running]) -> Outcome:
        """Return all records as an outcome; `theta` and `running` are those after the last step."""
        if self.diverged_step is not None and "end" in self.setup.trial.config.measure.weights:
            self.add_snapshot(theta, running)  # divergence ended the trial early
        if self.diverged_step is None and not np.isfinite(theta).all():
            self.diverged_step = self.steps  # the last update itself overflowed
        series = self._epoch_series() | {
            metric: (np.array([at for at, _ in points]), np.array([value for _, value in points], float))
            for metric, points in self._points.items()
        }
        loss = Curve("loss", np.arange(1, self.steps + 1), np.array(self._losses, float))
        curves = (loss, *(Curve(metric, steps, values) for metric, (steps, values) in series.items()))
        columns = list(zip(*self._layers, strict=True)) or [(), (), (), ()]
        table = LayerTable(
            np.array(columns[0], int), np.array(columns[1], int), columns[2], np.array(columns[3], float)
        )
        status: Literal["done", "diverged"] = "done" if self.diverged_step is None else "diverged"
        return Outcome(status, self._metrics(series), curves, table, theta, tuple(self._snapshots))

    def _epoch_series(self) -> Series:
        """Return the mean training loss and accuracy and the time of every epoch (the last may be shorter)."""
        finite = self.steps if self.diverged_step is None else self.diverged_step - 1
        if finite <= 0:
            return {}
        starts = np.arange(0, finite, self.setup.steps_per_epoch)
        ends = np.append(starts[1:], finite)

        def total(values: list[Any], weights: Any = 1.0) -> NDArray[np.float64]:
            sums: NDArray[np.float64] = np.add.reduceat(np.array(values[:finite], float) * weights, starts)
            return sums

        sizes = np.array(self._sizes[:finite], float)
        samples = np.add.reduceat(sizes, starts)
        found = {"train_loss": (ends, total(self._losses, sizes) / samples)}
        if self.classes is not None:
            found["train_accuracy"] = (ends, total(self._correct) / samples)
        return found | {"epoch_seconds": (ends, total(self._seconds))}

    def _metrics(self, series: Series) -> dict[str, float | int | None]:
        setup, steps = self.setup, self.steps
        tail = self._losses[-FINAL_STEPS:]
        last = {metric: float(values[-1]) for metric, (_, values) in series.items()}
        if self.diverged_step is not None:  # the last evaluation describes parameters that no longer exist
            last = {}
        reached = self._find_target_step(setup.trial.config.measure.target, series)
        per_step = sum(self._seconds) / steps if steps else None
        return {
            "initial_loss": self.first_loss,
            "final_loss": float(np.mean(tail)) if tail else None,
            "last_loss": tail[-1] if tail else None,
            **{metric: last.get(metric) for metric in EVALUATED},
            "steps_to_target": reached,
            "epochs_to_target": None if reached is None else reached / setup.steps_per_epoch,
            "collapsed": self._detect_collapse(last),
            "diverged_step": self.diverged_step,
            "parameters": setup.mlp.layout.size,
            "flops": setup.mlp.flops(sum(self._sizes), backward=True),
            "seconds_per_epoch": None if per_step is None else per_step * setup.steps_per_epoch,
        }

    def _detect_collapse(self, last: Mapping[str, float | None]) -> int | None:
        if self.classes is None:
            return None
        for metric in ("test_accuracy", "validation_accuracy", "train_accuracy"):
            accuracy = last.get(metric)
            if accuracy is not None:
                return int(accuracy <= COLLAPSED / self.classes)
        return None

    def _find_target_step(self, target: Target | None, series: Series) -> int | None:
        """Return the first step at which the target was met; None if never (censored)."""
        if target is None:
            return None
        if target.metric == "final_loss":
            window = min(FINAL_STEPS, self.steps)
            hits = np.flatnonzero(running_mean(self._losses, window) <= target.value)
            return int(hits[0]) + window if len(hits) else None
        if target.metric not in series:
            return None
        steps, values = series[target.metric]
        lower = METRICS[target.metric].better == "lower"
        hits = np.flatnonzero(values <= target.value if lower else values >= target.value)
        return int(steps[hits[0]]) if len(hits) else None


def count_correct(output: NDArray[Any], target: NDArray[Any]) -> int:
    """Count the rows whose largest output is at the target's class."""
    return int(np.count_nonzero(output.argmax(1) == target))


def running_mean(values: list[float], length: int) -> NDArray[np.float64]:
    """Return means over windows of this length, computed exactly as `final_loss`."""
    if length == 0:
        return np.empty(0)
    windows = np.lib.stride_tricks.sliding_window_view(np.array(values, float), length)
    means: NDArray[np.float64] = windows.mean(1)
    return means

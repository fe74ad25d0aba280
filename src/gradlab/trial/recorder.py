"""The trial's notebook: every engine writes its steps, epochs and layer measures into one of these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.spec.config import Target
from gradlab.trial.outcome import Curve, LayerTable, Outcome
from gradlab.trial.setup import Setup

FINAL_STEPS = 10
"""`final_loss` is the mean training loss of so many last steps."""
COLLAPSED = 1.5
"""A classifier has collapsed if its accuracy is at most so many times chance."""


class Recorder:
    """Collects what happens during a trial and turns it into an `Outcome`."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.classes = setup.dataset.classes
        self.losses: list[float] = []
        self.first_loss: float | None = None
        self.diverged_step: int | None = None
        self._points: dict[str, list[tuple[int, float]]] = {}
        self._epoch = [0.0, 0.0, 0.0]  # summed loss, correct answers, samples
        self._layers: list[tuple[int, int, str, float]] = []
        self._samples = 0
        self._training_seconds = 0.0
        self._started: float | None = None

    def start_clock(self) -> None:
        """Training time runs; evaluation and probes are not counted."""
        self._started = perf_counter()

    def stop_clock(self) -> None:
        """Training time stands still."""
        if self._started is not None:
            self._training_seconds += perf_counter() - self._started
            self._started = None

    def step(self, loss: float, output: NDArray[Any], target: NDArray[Any]) -> bool:
        """Note a step's training loss; False if it is not finite: the trial has diverged."""
        if not self.losses:
            self.first_loss = loss
        self.losses.append(loss)
        if not math.isfinite(loss):
            self.diverged_step = len(self.losses)
            return False
        self._epoch[0] += loss * len(output)
        self._epoch[1] += count_correct(output, target) if self.classes is not None else 0
        self._epoch[2] += len(output)
        self._samples += len(output)
        return True

    def end_epoch(self, evaluations: Mapping[str, float]) -> None:
        """Note the epoch's running means on training data, and what was evaluated after it."""
        loss, correct, samples = self._epoch
        self._point("train_loss", loss / samples)
        if self.classes is not None:
            self._point("train_accuracy", correct / samples)
        for metric, value in evaluations.items():
            self._point(metric, value)
        self._epoch = [0.0, 0.0, 0.0]

    def layer(self, step: int, number: int, measures: Mapping[str, float]) -> None:
        """Note the measures of one layer after a step."""
        self._layers.extend((step, number, measure, value) for measure, value in measures.items())

    def _point(self, metric: str, value: float) -> None:
        self._points.setdefault(metric, []).append((len(self.losses), value))

    # ------------------------------------------------------------------ the end

    def outcome(self, theta: NDArray[Any]) -> Outcome:
        """Everything noted, as a frozen result."""
        self.stop_clock()
        if self.diverged_step is None and not np.isfinite(theta).all():
            self.diverged_step = len(self.losses)  # the last update itself overflowed
        steps = np.arange(1, len(self.losses) + 1)
        curves = [Curve("loss", steps, np.array(self.losses, float))]
        for metric, points in self._points.items():
            at, values = zip(*points, strict=True)
            curves.append(Curve(metric, np.array(at), np.array(values, float)))
        columns = list(zip(*self._layers, strict=True)) or [(), (), (), ()]
        table = LayerTable(
            np.array(columns[0], int), np.array(columns[1], int), columns[2], np.array(columns[3], float)
        )
        status = "done" if self.diverged_step is None else "diverged"
        return Outcome(status, self._metrics(), tuple(curves), table, theta)  # type: ignore[arg-type]

    def _metrics(self) -> dict[str, float | int | None]:
        setup, steps = self.setup, len(self.losses)
        tail = self.losses[-FINAL_STEPS:]
        last = {metric: points[-1][1] for metric, points in self._points.items()}
        if self.diverged_step is not None:  # the last evaluation is of a network that no longer exists
            last = {}
        reached = self._reached(setup.trial.config.measure.target)
        per_step = self._training_seconds / steps if steps else None
        return {
            "initial_loss": self.first_loss,
            "final_loss": float(np.mean(tail)) if tail else None,
            "last_loss": tail[-1] if tail else None,
            **{metric: last.get(metric) for metric in EVALUATED},
            "steps_to_target": reached,
            "epochs_to_target": None if reached is None else reached / setup.steps_per_epoch,
            "collapsed": self._collapsed(last),
            "diverged_step": self.diverged_step,
            "parameters": setup.mlp.layout.size,
            "flops": setup.mlp.flops(self._samples, backward=True),
            "seconds_per_epoch": None if per_step is None else per_step * setup.steps_per_epoch,
        }

    def _collapsed(self, last: Mapping[str, float | None]) -> int | None:
        if self.classes is None:
            return None
        for metric in ("test_accuracy", "validation_accuracy", "train_accuracy"):
            accuracy = last.get(metric)
            if accuracy is not None:
                return int(accuracy <= COLLAPSED / self.classes)
        return None

    def _reached(self, target: Target | None) -> int | None:
        """The first step after which the target was met; None if never (censored)."""
        if target is None:
            return None
        if target.metric == "train_loss":
            means = running_mean(self.losses, FINAL_STEPS)
            hits = np.flatnonzero(means <= target.value)
            return int(hits[0]) + FINAL_STEPS if len(hits) else None
        loss = target.metric.endswith("loss")
        for step, value in self._points.get(target.metric, []):
            if value <= target.value if loss else value >= target.value:
                return step
        return None


EVALUATED = (
    "train_loss",
    "train_accuracy",
    "validation_loss",
    "validation_accuracy",
    "test_loss",
    "test_accuracy",
)


def count_correct(output: NDArray[Any], target: NDArray[Any]) -> int:
    """How many rows have their largest output at the target's class."""
    return int(np.count_nonzero(output.argmax(1) == target))


def running_mean(values: list[float], length: int) -> NDArray[np.float64]:
    """Means over windows of this length, exactly as `final_loss` is a mean over its last steps."""
    if len(values) < length:
        return np.empty(0)
    windows = np.lib.stride_tricks.sliding_window_view(np.array(values, float), length)
    means: NDArray[np.float64] = windows.mean(1)
    return means

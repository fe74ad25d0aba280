"""What a study does to any task's data: scaling that is fitted on the training rows, and wrong labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.data.base import Dataset, Task
from gradlab.errors import StudyError
from gradlab.spec.choice import DataChoice
from gradlab.streams import Streams

Array = NDArray[Any]


def load_dataset(choice: DataChoice, task: Task, streams: Streams, split: Streams) -> Dataset:
    """Load a task's data as the study wants them; `split` are the streams that its split depends on."""
    check(choice, task)
    data = task.load(streams.generator("data"), split.generator("split"))
    if choice.scaling != "task":
        data = scaled(data, choice.scaling)
    return with_wrong_labels(data, choice.label_noise, streams) if choice.label_noise else data


def check(choice: DataChoice, task: Task) -> None:
    """Raise a `StudyError` where the task cannot have this."""
    if choice.label_noise and task.facts().classes is None:
        raise StudyError(f"the task {task.name!r} has no classes; give its targets noise", where="data.label_noise")


def scaled(data: Dataset, kind: str) -> Dataset:
    """Scale inputs as stored; what is fitted is fitted on the training rows."""
    if kind == "none":
        return replace(data, factor=1.0, offset=0.0)
    rows = data.inputs[data.train]
    if kind == "unit":
        largest = 255.0 if data.inputs.dtype == np.uint8 else float(np.abs(rows).max(initial=0.0))
        return replace(data, factor=1 / (largest or 1.0), offset=0.0)
    if kind == "standardized":
        mean, std = float(rows.mean(dtype=np.float64)), float(rows.std(dtype=np.float64))
        return replace(data, factor=1 / (std or 1.0), offset=-mean / (std or 1.0))
    wide = rows.astype(np.float64)
    if kind == "quantile":
        return replace(data, inputs=_ranks(np.sort(wide, 0), data.inputs), factor=1.0, offset=0.0)
    low, size = (wide.mean(0), wide.std(0)) if kind == "per_feature" else (wide.min(0), np.ptp(wide, 0))
    size = np.where(size > 0, size, 1.0)  # a constant column becomes 0
    return replace(data, inputs=(data.inputs - low) / size, factor=1.0, offset=0.0)


def _ranks(ordered: Array, inputs: Array) -> Array:
    """Place of every number among its column's training numbers, from 0 to 1; of equal ones the middle."""
    found = np.empty(inputs.shape, np.float64)
    for column in range(inputs.shape[1]):
        own = ordered[:, column]
        below, upto = (np.searchsorted(own, inputs[:, column], side) for side in ("left", "right"))
        found[:, column] = np.clip((below + np.maximum(upto - 1, below)) / 2 / max(len(own) - 1, 1), 0, 1)
    return found


def with_wrong_labels(data: Dataset, share: float, streams: Streams) -> Dataset:
    """Give this share of the training rows another class, each of the others equally likely."""
    assert data.classes is not None
    u = streams.uniform("label-noise", (2, len(data.train)))
    chosen = np.argsort(u[0], kind="stable")[: round(share * len(data.train))]
    rows = data.train[chosen]
    targets = data.targets.copy()
    shift = 1 + (u[1, chosen] * (data.classes - 1)).astype(targets.dtype)
    targets[rows] = (targets[rows] + shift) % data.classes
    return replace(data, targets=targets)

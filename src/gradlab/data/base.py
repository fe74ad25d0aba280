"""What a task is, and the data set it gives.

Inputs stay as they are stored (MNIST: uint8) and are scaled when a batch is gathered:

    x = stored · factor + offset          shapes: (n, d) -> (rows, d)
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gradlab.parts import Part

Array = NDArray[Any]
Rows = NDArray[np.intp]
SplitName = Literal["train", "validation", "test"]


def no_rows() -> Rows:
    """An empty split."""
    return np.empty(0, np.intp)


@dataclass(frozen=True)
class Dataset:
    """Samples, targets and the rows of each split. `classes` is None for a regression."""

    inputs: Array
    targets: Array
    train: Rows
    validation: Rows = field(default_factory=no_rows)
    test: Rows = field(default_factory=no_rows)
    classes: int | None = None
    factor: float = 1.0
    offset: float = 0.0

    @property
    def input_width(self) -> int:
        """Numbers per sample."""
        return int(self.inputs.shape[1])

    @property
    def output_width(self) -> int:
        """Numbers that a network has to give per sample: one per class, or per target."""
        return self.classes if self.classes is not None else int(self.targets.shape[1])

    def rows(self, split: SplitName) -> Rows:
        """The rows of a split."""
        return {"train": self.train, "validation": self.validation, "test": self.test}[split]

    def gather(self, rows: Rows, dtype: DTypeLike) -> tuple[Array, Array]:
        """Inputs (scaled) and targets of these rows."""
        return self.scaled(self.inputs[rows], dtype), self.typed(self.targets[rows], dtype)

    def scaled(self, stored: Array, dtype: DTypeLike) -> Array:
        """Stored numbers as the network sees them."""
        x = stored.astype(dtype)
        if self.factor != 1.0:
            x *= np.asarray(self.factor, dtype)
        if self.offset != 0.0:
            x += np.asarray(self.offset, dtype)
        return x

    def typed(self, targets: Array, dtype: DTypeLike) -> Array:
        """Targets as the loss wants them: class numbers as they are, real values in the trial's precision."""
        return targets if self.classes is not None else targets.astype(dtype)


@dataclass(frozen=True)
class Facts:
    """What is known of a task before its data are made: enough to lay out a network and estimate its cost."""

    input_width: int
    output_width: int
    samples: int
    classes: int | None
    bytes: int
    validation: int = 0
    test: int = 0
    stated: str = ""
    """What was inferred, in words, for the plan."""

    @property
    def evaluated(self) -> int:
        """Rows that are evaluated after an epoch."""
        return self.validation + self.test


class Task(Part):
    """A task makes a data set from two generators: one for the samples, one for the split."""

    part: ClassVar[str] = "task"
    location: ClassVar[tuple[str, ...]] = ()
    """Parameters that only say where data lie; the fingerprint says what they are."""

    zeros: ClassVar[float] = 0.0
    """Share of the inputs that are stored as 0, of tasks that store uint8: engines may leave these out of a product."""

    def fingerprint(self) -> str:
        """A hash of data that come from outside the parameters; empty for data made from them."""
        return ""

    @abstractmethod
    def facts(self) -> Facts:
        """Sizes, without making the data."""

    @abstractmethod
    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """The data set. The same generators give the same bits."""

    def fresh(self, generator: np.random.Generator, count: int) -> tuple[Array, Array] | None:
        """New samples from the task's own distribution, unscaled. Tasks that cannot draw leave this as it is."""
        return None

    @property
    def draws_fresh(self) -> bool:
        """Whether the task can draw new samples."""
        return type(self).fresh is not Task.fresh

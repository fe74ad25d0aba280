"""The base class of tasks, and the data set that a task provides.

Inputs are kept as stored (MNIST: uint8) and scaled when a batch is gathered:

    x = stored · factor + offset          shapes: (n, d) -> (rows, d)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gradlab.parts import Part

# Data that another process has read: a cluster's driver reads a file once and places it in every worker. Tasks with the
# same source share the arrays, which on a machine are one copy in shared memory; the file itself need not be there.

_placed: dict[str, Any] = {}


def place(arrays: Mapping[str, Any]) -> None:
    """Make these arrays what tasks with these sources read, until the process ends."""
    _placed.update(arrays)


def placed(source: str) -> Any:
    """Return what was placed for a source; None if nothing was."""
    return _placed.get(source)


Array = NDArray[Any]
Rows = NDArray[np.intp]
SplitName = Literal["train", "validation", "test"]


def no_rows() -> Rows:
    """Return an empty split."""
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
        """Outputs per sample that a network must have: one per class, or per target."""
        return self.classes if self.classes is not None else int(self.targets.shape[1])

    def rows(self, split: SplitName) -> Rows:
        """The rows of a split."""
        return {"train": self.train, "validation": self.validation, "test": self.test}[split]

    def gather(self, rows: Rows, dtype: DTypeLike) -> tuple[Array, Array]:
        """Return inputs (scaled) and targets of these rows."""
        return self.scaled(self.inputs[rows], dtype), self.typed(self.targets[rows], dtype)

    def scaled(self, stored: Array, dtype: DTypeLike) -> Array:
        """Scale stored inputs for the network."""
        x = stored.astype(dtype)
        if self.factor != 1.0:
            x *= np.asarray(self.factor, dtype)
        if self.offset != 0.0:
            x += np.asarray(self.offset, dtype)
        return x

    def typed(self, targets: Array, dtype: DTypeLike) -> Array:
        """Convert targets for the loss: class numbers unchanged, real values in the trial's precision."""
        return targets if self.classes is not None else targets.astype(dtype)


@dataclass(frozen=True)
class Facts:
    """What is known about a task before its data are loaded: enough to lay out a network and estimate its cost."""

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
        """Number of rows that an evaluation uses."""
        return self.validation + self.test


class Task(Part):
    """Makes a data set from two generators: one for the samples, one for the split.

    All randomness comes from the generators it is given; the same generators give the same bits.
    """

    part: ClassVar[str] = "task"
    location: ClassVar[tuple[str, ...]] = ()
    """Parameters that only say where the data are; the fingerprint identifies them."""

    zeros: ClassVar[float] = 0.0
    """Share of the inputs that are stored as 0, of tasks that store uint8: engines may leave these out of a product."""

    def fingerprint(self) -> str:
        """Return a hash of data from outside the parameters; empty if the parameters determine the data."""
        return ""

    @abstractmethod
    def facts(self) -> Facts:
        """Sizes, without making the data: a plan asks for them, often. They have to agree with what `load` gives."""

    def source(self) -> str:
        """Name what `read` gives; tasks with the same source share it. Empty if the task reads nothing."""
        return ""

    def read(self) -> Any:
        """Read what is outside the parameters (files), as `load` uses it; None if there is nothing.

        A driver of a cluster calls it once and places the arrays in the workers; `load` asks `stored` for them.
        """
        return None

    def stored(self) -> Any:
        """What was placed in this process for this task, or else what `read` gives."""
        data = placed(self.source()) if self.source() else None
        return self.read() if data is None else data

    @abstractmethod
    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """The data set.

        samples: draws the samples, the same for all trials of a seed. split: draws which rows are trained on; shared
        by all trials of a study unless `data.split` is `per_trial`.
        Inputs are (rows, d) in any number type, scaled when a batch is gathered; targets are class numbers (rows,) or
        values (rows, k). Splits are row numbers that do not overlap. Arrays are read by several threads and must not
        be changed afterwards.
        """

    def fresh(self, generator: np.random.Generator, count: int) -> tuple[Array, Array] | None:
        """(inputs, targets) of `count` new samples from the task's own distribution, unscaled, as `load` stores them.

        Tasks that cannot draw leave this as it is.
        """
        return None

    @property
    def draws_fresh(self) -> bool:
        """Whether the task can draw new samples."""
        return type(self).fresh is not Task.fresh

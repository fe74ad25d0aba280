"""One-sample regression: a single random input and one target value, to study one backward pass."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from gradlab.data.base import Array, Dataset, Facts, Task
from gradlab.streams import standard_normal


class OneSample(Task):
    """x ~ N(0, I) of `dim` numbers, target = a constant of `outputs` numbers."""

    name = "one_sample"

    dim: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    outputs: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    target: float = 0.0

    def facts(self) -> Facts:
        """One sample."""
        return Facts(self.dim, self.outputs, 1, None, 8 * (self.dim + self.outputs))

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """The one sample is the training set."""
        x, y = self.fresh(samples, 1)
        return Dataset(x, y, train=np.arange(1))

    def fresh(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Draw new inputs with the same target."""
        x = standard_normal(generator.random((count, self.dim)) + 2.0**-54)
        return x, np.full((count, self.outputs), self.target)

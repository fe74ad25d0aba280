"""Distant identity: reproduce the input through many layers."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from gradlab.data.base import Array, Dataset, Facts, Task


class Identity(Task):
    """x ~ U(−half_range, half_range)^dim, target = x.

    A network that ends in a ReLU cannot output negative numbers; its loss has a floor of E[min(x, 0)²] = half_range²/6,
    and always predicting 0 costs half_range²/3.
    """

    name = "identity"

    dim: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    samples: Annotated[int, Field(ge=1, le=10**9)] = 1024
    half_range: Annotated[float, Field(gt=0)] = 1.0

    def facts(self) -> Facts:
        """Input and output have the same width."""
        return Facts(self.dim, self.dim, self.samples, None, 3 * 8 * self.dim * self.samples)

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """All samples are training samples."""
        x, y = self.fresh(samples, self.samples)
        return Dataset(x, y, train=np.arange(self.samples))

    def fresh(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Draw new vectors."""
        x = self.half_range * (2.0 * generator.random((count, self.dim)) - 1.0)
        return x, x

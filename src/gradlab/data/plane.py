"""Two classes of points in the plane: what the toy tasks share. Two numbers in, so that a decision can be drawn."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.data.base import Array, Dataset, Facts, Task
from gradlab.streams import standard_normal

Points = NDArray[np.float64]
_HALF_STEP = 2.0**-54


class Plane(Task):
    """Points (x₁, x₂) of class 0 or 1 with Gaussian noise; training and test points are drawn alike."""

    samples: Annotated[int, Field(ge=2, le=10**7)] = 512
    """Training points."""
    test: Annotated[int, Field(ge=0, le=10**7)] = 512
    noise: Annotated[float, Field(ge=0)] = 0.1
    """Standard deviation of what is added to both coordinates."""

    @abstractmethod
    def place(self, u: Points, label: NDArray[np.int64]) -> Points:
        """Points without noise, (n, 2): u holds two uniform numbers in (0, 1) of each, label its class."""

    def facts(self) -> Facts:
        """Two numbers in, two classes out."""
        return Facts(2, 2, self.samples, 2, 3 * 8 * 2 * (self.samples + self.test), test=self.test)

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """The first points are the training points."""
        x, y = self.fresh(samples, self.samples + self.test)
        rows = np.arange(self.samples + self.test)
        return Dataset(x, y, train=rows[: self.samples], test=rows[self.samples :], classes=2)

    def fresh(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Classes take turns, so that both are equally frequent."""
        label = np.arange(count) % 2
        u = generator.random((count, 4)) + _HALF_STEP
        return self.place(u[:, :2], label) + self.noise * standard_normal(u[:, 2:]), label

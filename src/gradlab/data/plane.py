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


class Circles(Plane):
    """Class 0 on a circle of radius 0.5, class 1 on one of radius 1.5: no straight line separates them."""

    name = "circles"

    def place(self, u: Points, label: NDArray[np.int64]) -> Points:
        """By angle."""
        angle, radius = 2 * np.pi * u[:, 0], 0.5 + label
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


class Moons(Plane):
    """Class 0 on an upper half circle, class 1 on a lower one, shifted into it."""

    name = "moons"

    def place(self, u: Points, label: NDArray[np.int64]) -> Points:
        """By angle; the center of both is the origin."""
        angle, side = np.pi * u[:, 0], 1 - 2 * label
        return np.stack([side * (np.cos(angle) - 0.5), side * (np.sin(angle) - 0.25)], axis=1)


class Spirals(Plane):
    """Class 1 is class 0 turned by half a turn; the radius grows with the angle, from 0 to 1.5."""

    name = "spirals"

    noise: Annotated[float, Field(ge=0)] = 0.05
    """Standard deviation of what is added to both coordinates."""
    turns: Annotated[float, Field(gt=0, le=20)] = 1.5
    """How often each arm winds around the center: the more, the harder."""

    def place(self, u: Points, label: NDArray[np.int64]) -> Points:
        """Evenly along the arm: the square root, because its outer part is longer."""
        along = np.sqrt(u[:, 0])
        angle = 2 * np.pi * self.turns * along + np.pi * label
        radius = 1.5 * along
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


class Xor(Plane):
    """Class 0 where x₁ x₂ > 0, class 1 where it is below: four squares, two of each class."""

    name = "xor"

    def place(self, u: Points, label: NDArray[np.int64]) -> Points:
        """In the square from −1.5 to 1.5; a point's class chooses the sign of its second coordinate."""
        first = 3 * u[:, 0] - 1.5
        return np.stack([first, 1.5 * u[:, 1] * np.sign(first) * (1 - 2 * label)], axis=1)

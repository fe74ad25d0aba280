"""Synthetic tasks: vectors to reproduce, one sample, and two classes of points in the plane.

Points have two numbers each, so that a decision can be drawn.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.data.base import Array, Dataset, Facts, Task
from gradlab.streams import standard_normal

Points = NDArray[np.float64]
_HALF_STEP = 2.0**-54
"""Half the step between uniform numbers: none of them is then 0, which has no normal quantile."""


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
        x = standard_normal(generator.random((count, self.dim)) + _HALF_STEP)
        return x, np.full((count, self.outputs), self.target)


class Regression(Task):
    """Inputs x of `dim` numbers and real targets; the first samples are for training, the others for the test."""

    dim: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    outputs: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    samples: Annotated[int, Field(ge=1, le=10**8)] = 128
    """Training samples."""
    test: Annotated[int, Field(ge=0, le=10**8)] = 0
    noise: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of what is added to the training targets."""
    inputs: Literal["normal", "sphere", "uniform"] = "normal"
    """Every number N(0, 1); the same with the vector scaled to length √dim; or U(−1, 1)."""

    @abstractmethod
    def targets(self, x: Array, generator: np.random.Generator) -> Array:
        """Targets without noise, (n, outputs)."""

    def facts(self) -> Facts:
        """As many numbers as asked for."""
        numbers = (self.dim + self.outputs) * (self.samples + self.test)
        return Facts(self.dim, self.outputs, self.samples, None, 3 * 8 * numbers, test=self.test)

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """Inputs first, then targets, then noise."""
        count = self.samples + self.test
        x = self.place(samples, count)
        y = self.targets(x, samples)
        if self.noise:
            y = y.copy()
            draw = samples.random((self.samples, self.outputs)) + _HALF_STEP
            y[: self.samples] += self.noise * standard_normal(draw)
        rows = np.arange(count)
        return Dataset(x, y, train=rows[: self.samples], test=rows[self.samples :])

    def place(self, generator: np.random.Generator, count: int) -> Array:
        """New inputs."""
        u = generator.random((count, self.dim)) + _HALF_STEP
        if self.inputs == "uniform":
            return 2 * u - 1
        x: Array = standard_normal(u)
        return x if self.inputs == "normal" else x * (self.dim**0.5 / np.linalg.norm(x, axis=1, keepdims=True))


class RandomRegression(Regression):
    """Targets are N(0, 1), independent of the inputs: there is nothing to learn but the samples themselves."""

    name = "random_regression"

    def targets(self, x: Array, generator: np.random.Generator) -> Array:
        """Drawn."""
        return standard_normal(generator.random((len(x), self.outputs)) + _HALF_STEP)

    def fresh(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Draw new inputs and targets."""
        x = self.place(generator, count)
        return x, self.targets(x, generator)


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

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
from gradlab.errors import StudyError
from gradlab.streams import standard_normal

Points = NDArray[np.float64]
_HALF_STEP = 2.0**-54
"""Half the step between uniform numbers: none of them is then 0, which has no normal quantile."""


def _share(samples: int, test: int, validation: int) -> tuple[Array, Array, Array]:
    """Rows for training, validation and test: the validation samples are the last, so that they move no others."""
    rows = np.arange(samples + test + validation)
    return rows[:samples], rows[samples + test :], rows[samples : samples + test]


class Identity(Task):
    """x ~ U(−half_range, half_range)^dim, target = x.

    A network that ends in a ReLU cannot output negative numbers; its loss has a floor of E[min(x, 0)²] = half_range²/6,
    and always predicting 0 costs half_range²/3.
    """

    name = "identity"

    dim: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    samples: Annotated[int, Field(ge=1, le=10**9)] = 1024
    half_range: Annotated[float, Field(gt=0)] = 1.0
    validation: Annotated[int, Field(ge=0, le=10**7)] = 0
    """Validation samples: to choose by, so that the test is looked at once. Drawn after all others."""
    later = ("validation",)

    def facts(self) -> Facts:
        """Input and output have the same width."""
        size = 3 * 8 * self.dim * (self.samples + self.validation)
        return Facts(self.dim, self.dim, self.samples, None, size, validation=self.validation)

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """The first rows are the training samples."""
        x, y = self.fresh(samples, self.samples + self.validation)
        train, validation, _ = _share(self.samples, 0, self.validation)
        return Dataset(x, y, train=train, validation=validation)

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
    validation: Annotated[int, Field(ge=0, le=10**7)] = 0
    """Validation samples: to choose by, so that the test is looked at once. Drawn after all others."""
    later = ("validation",)
    noise: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of what is added to the training targets."""
    inputs: Literal["normal", "sphere", "uniform"] = "normal"
    """Every number N(0, 1); the same with the vector scaled to length √dim; or U(−1, 1)."""

    @abstractmethod
    def targets(self, x: Array, generator: np.random.Generator) -> Array:
        """Targets without noise, (n, outputs)."""

    def facts(self) -> Facts:
        """As many numbers as asked for."""
        numbers = (self.dim + self.outputs) * (self.samples + self.test + self.validation)
        return Facts(
            self.dim, self.outputs, self.samples, None, 3 * 8 * numbers, validation=self.validation, test=self.test
        )

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """Inputs first, then targets, then noise."""
        count = self.samples + self.test + self.validation
        x = self.place(samples, count)
        y = self.targets(x, samples)
        if self.noise:
            y = y.copy()
            draw = samples.random((self.samples, self.outputs)) + _HALF_STEP
            y[: self.samples] += self.noise * standard_normal(draw)
        train, validation, test = _share(self.samples, self.test, self.validation)
        return Dataset(x, y, train=train, validation=validation, test=test)

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


class TeacherStudent(Regression):
    """Targets are what a random two-layer network, the teacher, gives: y = Σ_k f(w_k · x/√dim)/√hidden."""

    name = "teacher_student"

    hidden: Annotated[int, Field(ge=1, le=100_000)] = 4
    """The teacher's units; its weights w and signs are N(0, 1) and ±1, drawn for every seed."""
    teacher: Literal["relu", "tanh", "erf", "linear"] = "tanh"
    """f; erf(z/√2) as in Saad and Solla 1995."""

    def targets(self, x: Array, generator: np.random.Generator) -> Array:
        """The teacher is drawn behind the inputs."""
        from scipy.special import erf

        w = standard_normal(generator.random((self.dim, self.hidden)) + _HALF_STEP)
        signs = np.where(generator.random((self.hidden, self.outputs)) < 0.5, -1.0, 1.0)
        z = x @ w / self.dim**0.5
        if self.teacher == "relu":
            f = np.maximum(z, 0)
        else:
            f = z if self.teacher == "linear" else np.tanh(z) if self.teacher == "tanh" else erf(z / 2**0.5)
        y: Array = f @ signs / self.hidden**0.5
        return y


class Parity(Task):
    """x is `bits` signs ±1, class 1 where the product of the first `relevant` of them is −1: sparse parity."""

    name = "parity"

    bits: Annotated[int, Field(ge=1, le=10_000)] = 20
    relevant: Annotated[int, Field(ge=1, le=10_000)] = 3
    samples: Annotated[int, Field(ge=2, le=10**7)] = 1000
    """Training samples."""
    test: Annotated[int, Field(ge=0, le=10**7)] = 1000
    validation: Annotated[int, Field(ge=0, le=10**7)] = 0
    """Validation samples: to choose by, so that the test is looked at once. Drawn after all others."""
    later = ("validation",)

    def facts(self) -> Facts:
        """Signs in, two classes out."""
        if self.relevant > self.bits:
            raise StudyError(f"there are {self.bits} bits, not {self.relevant}", where="data.relevant")
        size = 3 * 8 * self.bits * (self.samples + self.test + self.validation)
        return Facts(self.bits, 2, self.samples, 2, size, validation=self.validation, test=self.test)

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """The first rows are the training samples."""
        x, y = self.fresh(samples, self.samples + self.test + self.validation)
        train, validation, test = _share(self.samples, self.test, self.validation)
        return Dataset(x, y, train=train, validation=validation, test=test, classes=2)

    def fresh(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Draw new signs."""
        x = np.where(generator.random((count, self.bits)) < 0.5, -1.0, 1.0)
        return x, (x[:, : self.relevant].prod(1) < 0).astype(np.int64)


class ModularAddition(Task):
    """x is a pair (a, b) below `modulus`, one-hot side by side; class a + b mod `modulus`: all pairs, split."""

    name = "modular_addition"

    modulus: Annotated[int, Field(ge=2, le=1000)] = 97
    train: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of all pairs; what validation leaves of the rest is the test."""
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of all pairs to choose by."""
    later = ("validation",)

    def facts(self) -> Facts:
        """Two one-hot vectors in, `modulus` classes out."""
        p = self.modulus
        samples, chosen = round(self.train * p * p), round(self.validation * p * p)
        if samples + chosen > p * p:
            raise StudyError("train and validation are more than all pairs", where="data.validation")
        test = p * p - samples - chosen
        return Facts(2 * p, p, samples, p, 3 * 8 * p**2 * 2 * p, validation=chosen, test=test)

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """Every pair once, in the order of the split's stream."""
        p = self.modulus
        a, b = np.divmod(np.arange(p * p), p)
        x = np.zeros((p * p, 2 * p), np.uint8)
        x[np.arange(p * p), a] = x[np.arange(p * p), p + b] = 1
        order = split.permutation(p * p)
        cut, last = round(self.train * p * p), p * p - round(self.validation * p * p)
        return Dataset(x, (a + b) % p, train=order[:cut], test=order[cut:last], validation=order[last:], classes=p)


class Plane(Task):
    """Points (x₁, x₂) of class 0 or 1 with Gaussian noise; training and test points are drawn alike."""

    samples: Annotated[int, Field(ge=2, le=10**7)] = 512
    """Training points."""
    test: Annotated[int, Field(ge=0, le=10**7)] = 512
    validation: Annotated[int, Field(ge=0, le=10**7)] = 0
    """Validation samples: to choose by, so that the test is looked at once. Drawn after all others."""
    later = ("validation",)
    noise: Annotated[float, Field(ge=0)] = 0.1
    """Standard deviation of what is added to both coordinates."""

    @abstractmethod
    def place(self, u: Points, label: NDArray[np.int64]) -> Points:
        """Points without noise, (n, 2): u holds two uniform numbers in (0, 1) of each, label its class."""

    def facts(self) -> Facts:
        """Two numbers in, two classes out."""
        size = 3 * 8 * 2 * (self.samples + self.test + self.validation)
        return Facts(2, 2, self.samples, 2, size, validation=self.validation, test=self.test)

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """The first points are the training points."""
        x, y = self.fresh(samples, self.samples + self.test + self.validation)
        train, validation, test = _share(self.samples, self.test, self.validation)
        return Dataset(x, y, train=train, validation=validation, test=test, classes=2)

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

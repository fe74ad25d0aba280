"""What an init is: from uniform numbers to a weight matrix, through the inverse CDF of its distribution."""

from __future__ import annotations

from abc import abstractmethod
from math import sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.errors import StudyError
from gradlab.parts import Part
from gradlab.streams import standard_normal

Draw = NDArray[np.float64]


class Init(Part):
    """W = F⁻¹(u) elementwise, u ~ U(0, 1) of shape (fan_in, fan_out).

    An init draws nothing itself: it is given uniform numbers, the same ones for every init and every arm, so arms start
    from paired draws. All numbers are float64, converted to the trial's precision afterwards. Methods must be
    deterministic and must not write to u. The study's `scale` is applied afterwards.
    """

    part: ClassVar[str] = "init"
    elementwise: ClassVar[bool] = True
    """Entries are independent, so biases can be drawn from the same distribution (`bias: same`)."""

    @abstractmethod
    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u), the inverse CDF: finite, and nowhere falling in u.

        u: uniform numbers in the open interval (0, 1), any shape. fan_in, fan_out: of the layer.
        Returns an array of u's shape.
        """

    def weights(self, u: Draw) -> Draw:
        """The weight matrix of a layer: `quantile` of every entry, unless overridden (and `elementwise` set to false).

        u: (fan_in, fan_out). Returns the same shape; the network computes x @ W, so columns are output units.
        """
        fan_in, fan_out = u.shape
        return self.quantile(u, fan_in, fan_out)


class HeNormal(Init):
    """W ~ N(0, 2/fan_in)."""

    name = "he_normal"
    called = "He init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return sqrt(2 / fan_in) * standard_normal(u)


class HeUniform(Init):
    """W ~ U(−√(6/fan_in), √(6/fan_in))."""

    name = "he_uniform"
    called = "He init (uniform)"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return sqrt(6 / fan_in) * (2 * u - 1)


class LecunNormal(Init):
    """W ~ N(0, 1/fan_in)."""

    name = "lecun_normal"
    called = "LeCun init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return sqrt(1 / fan_in) * standard_normal(u)


class XavierNormal(Init):
    """W ~ N(0, 2/(fan_in + fan_out))."""

    name = "xavier_normal"
    called = "Xavier init (normal)"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return sqrt(2 / (fan_in + fan_out)) * standard_normal(u)


class XavierUniform(Init):
    """W ~ U(−√(6/(fan_in + fan_out)), √(6/(fan_in + fan_out)))."""

    name = "xavier_uniform"
    called = "Xavier init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return sqrt(6 / (fan_in + fan_out)) * (2 * u - 1)


class TorchDefault(Init):
    """W ~ U(−1/√fan_in, 1/√fan_in)."""

    name = "torch_default"
    called = "default init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return (2 * u - 1) / sqrt(fan_in)


class Uniform(Init):
    """W ~ U(−a, a)."""

    name = "uniform"
    a: Annotated[float, Field(gt=0)] = 0.5

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return self.a * (2 * u - 1)


class Orthogonal(Init):
    """W = Q of the QR decomposition of a normal matrix, signs fixed so that W is Haar-distributed."""

    name = "orthogonal"
    elementwise = False

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """Entries of an orthogonal matrix are not independent."""
        raise StudyError("'same' has no meaning for an orthogonal init; use zeros", where="model.init.bias")

    def weights(self, u: Draw) -> Draw:
        """Orthonormal columns, or rows where there are fewer of them."""
        normal = standard_normal(u)
        tall = normal if normal.shape[0] >= normal.shape[1] else normal.T
        q, r = np.linalg.qr(tall)
        q *= np.where(np.diag(r) < 0, -1.0, 1.0)
        return q if normal.shape[0] >= normal.shape[1] else q.T


class Zeros(Init):
    """W = 0."""

    name = "zeros"
    called = "zero init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """0 for every u."""
        return np.zeros_like(u)

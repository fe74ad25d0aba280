"""What an init is: from uniform numbers to a weight matrix, through the inverse CDF of its distribution."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.errors import StudyError
from gradlab.parts import Part
from gradlab.streams import standard_normal

if TYPE_CHECKING:
    from gradlab.network.mlp import MLP

Draw = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """Where a layer stands."""

    where: Literal["stem", "blocks", "head"]
    position: int = 1
    """Of its block's layers, from 1."""
    per_block: int = 1
    """Layers of its block."""
    blocks: int = 0
    depth: int = 1
    """Hidden layers of the network."""


class Init(Part):
    """W = F⁻¹(u) elementwise, u ~ U(0, 1) of shape (fan_in, fan_out).

    An init draws nothing itself: it is given uniform numbers, the same ones for every init and every arm, so arms start
    from paired draws. All numbers are float64, converted to the trial's precision afterwards. Methods must be
    deterministic and must not write to u. The study's `scale` is applied afterwards.
    """

    part: ClassVar[str] = "init"
    elementwise: ClassVar[bool] = True
    """Entries are independent, so biases can be drawn from the same distribution (`bias: same`)."""

    calibrates: ClassVar[bool] = False
    """Whether `calibrate` changes the drawn network by what it computes on data."""

    def factor(self, place: Place) -> float:
        """What multiplies the matrix of a layer besides the study's `scale`; 1 unless it depends on the place."""
        return 1.0

    def calibrate(self, mlp: MLP, theta: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
        """The flat parameters, changed so that the network does with x what the init promises.

        theta: as drawn. x: the inputs of the first batch, (n, d). Only called where `calibrates` says so.
        """
        return theta

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


class Normal(Init):
    """W ~ N(0, std²)."""

    name = "normal"
    std: Annotated[float, Field(gt=0)] = 0.01

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return self.std * standard_normal(u)


class LecunUniform(Init):
    """W ~ U(−√(3/fan_in), √(3/fan_in))."""

    name = "lecun_uniform"
    called = "LeCun init (uniform)"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return sqrt(3 / fan_in) * (2 * u - 1)


class Fixup(Init):
    """He init times L^(−1/(2m − 2)) in L blocks of m layers; the last layer of a block and the head are 0.

    Zhang, Dauphin, Ma 2019, without its scalar biases and multipliers. With m = 1 every block starts as 0.
    """

    name = "fixup"
    called = "Fixup init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u) of He init."""
        return sqrt(2 / fan_in) * standard_normal(u)

    def factor(self, place: Place) -> float:
        """By place."""
        if place.where == "stem":
            return 1.0
        if place.where == "head" or place.position == place.per_block:
            return 0.0
        return float(place.blocks ** (-1 / (2 * place.per_block - 2)))


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


class Lsuv(Orthogonal):
    """Orthogonal, then every layer divided by the standard deviation of its product on the first batch.

    Layer-sequential unit variance (Mishkin, Matas 2016).
    """

    name = "lsuv"
    called = "LSUV init"
    calibrates = True

    def calibrate(self, mlp: MLP, theta: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
        """Layer by layer; each needs the forward pass through those before it."""
        theta = theta.copy()
        p = mlp.layout.windows(theta)
        with np.errstate(all="ignore"):
            for layer, own in zip(mlp.layers, p.layers, strict=True):
                _, tape = mlp.forward(p, x, mlp.initial_running(theta.dtype))
                size = float(np.std(tape.records[layer.number - 1].x @ own.weight, dtype=np.float64))
                if 0 < size < inf:
                    own.weight[:] /= size
        return theta


class Zeros(Init):
    """W = 0."""

    name = "zeros"
    called = "zero init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """0 for every u."""
        return np.zeros_like(u)

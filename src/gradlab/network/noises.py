"""What a noise is: a random affine map of a signal during training, such as dropout. Evaluation leaves it out.

A noise stands at one of three places of a network, each with draws of its own:

    input     x ← a ⊙ x + b                    what the first layer is given           `model.input_dropout`
    hidden    h ← a ⊙ f(…) + b                 after the activation of a hidden layer   `model.dropout`
    branch    y = skip(x, a ⊙ F(x) + b)        the branch of a block, before it joins   `model.branch_dropout`

a and b are computed from uniform numbers of a named stream (place, layer or block, step), so that arms whose layers
have the same width get the same draws, and no other draw depends on them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.parts import Part
from gradlab.streams import Streams, standard_normal

Array = NDArray[Any]
Uniform = NDArray[np.float64]
Share = Annotated[float, Field(ge=0, lt=1)]
PLACES = ("input", "hidden", "branch")


class Noise(Part):
    """x ← a ⊙ x + b in training, with random a and b; backward: dx = a ⊙ dy.

    Both come from uniform numbers that the part is given, never from a source of its own. In evaluation, and where
    layers are measured, x stays as it is: so the mean of a should be 1 and that of b 0, or as the part says.
    """

    part: ClassVar[str] = "noise"
    for_branches: ClassVar[bool] = False
    """Whether it only makes sense on the branch of a block that has a skip beside it."""

    def shape(self, samples: int, units: int) -> tuple[int, int]:
        """The shape of the uniform numbers: one per sample and unit, unless overridden; it must broadcast to x's."""
        return samples, units

    @abstractmethod
    def affine(self, u: Uniform, along: float) -> tuple[Any, Any]:
        """(a, b), arrays of u's shape or numbers.

        u: uniform numbers in (0, 1) of the shape above. along: the number of the layer or block over how many there
        are, from above 0 to 1 (at the input: 1), for rates that grow with depth.
        """


@dataclass(frozen=True)
class Draws:
    """The uniform numbers of one training step."""

    streams: Streams
    step: int

    def apply(self, noise: Noise, place: str, number: int, along: float, x: Array) -> tuple[Array, Array]:
        """Return (a ⊙ x + b, a) in the dtype of x; `number` is that of the layer or block."""
        scale, shift = self.affine(noise, place, number, along, x.shape[0], x.shape[1], x.dtype)
        return scale * x + shift, scale

    def affine(
        self, noise: Noise, place: str, number: int, along: float, samples: int, units: int, dtype: Any
    ) -> tuple[Array, Array]:
        """Return a and b in this dtype."""
        u = self.streams.uniform(f"noise-{place}", noise.shape(samples, units), number, self.step)
        scale, shift = noise.affine(u, along)
        return np.asarray(scale, dtype), np.asarray(shift, dtype)


class NoNoise(Noise):
    """x stays as it is."""

    name = "none"
    called = "no dropout"

    def affine(self, u: Uniform, along: float) -> tuple[Any, Any]:
        """a = 1, b = 0."""
        return 1.0, 0.0


class Dropout(Noise):
    """a is 0 with probability `rate`, else 1/(1 − rate): inverted dropout, as in PyTorch and Keras."""

    name = "dropout"
    called = "dropout"
    rate: Share = 0.5

    def affine(self, u: Uniform, along: float) -> tuple[Any, Any]:
        """u ≥ rate stays."""
        return (u >= self.rate) / (1 - self.rate), 0.0


class AlphaDropout(Noise):
    """Dropped numbers become SELU's limit −λα; then scaled and shifted so that mean 0 and variance 1 are kept."""

    name = "alpha_dropout"
    called = "alpha dropout"
    rate: Share = 0.1

    def affine(self, u: Uniform, along: float) -> tuple[Any, Any]:
        """y = s (m x + (1 − m) α') + t with s = (q + α'² q (1 − q))^(−1/2), t = −s α' (1 − q), q = 1 − rate."""
        limit, keep = -1.7580993408473766, 1 - self.rate
        s = 1 / sqrt(keep + limit**2 * keep * self.rate)
        kept = u >= self.rate
        return s * kept, s * limit * (~kept - self.rate)


class GaussianDropout(Noise):
    """a ~ N(1, rate/(1 − rate)): as much variance as dropout of this rate, without zeros."""

    name = "gaussian_dropout"
    called = "Gaussian dropout"
    rate: Share = 0.5

    def affine(self, u: Uniform, along: float) -> tuple[Any, Any]:
        """a = 1 + √(rate/(1 − rate)) z."""
        return 1 + sqrt(self.rate / (1 - self.rate)) * standard_normal(u), 0.0


class GaussianNoise(Noise):
    """b ~ N(0, std²)."""

    name = "gaussian_noise"
    called = "Gaussian noise"
    std: Annotated[float, Field(ge=0)] = 0.1

    def affine(self, u: Uniform, along: float) -> tuple[Any, Any]:
        """b = std z."""
        return 1.0, self.std * standard_normal(u)


class StochasticDepth(Noise):
    """A block's whole branch is dropped for a sample with probability `rate`, else divided by 1 − rate."""

    name = "stochastic_depth"
    called = "stochastic depth"
    for_branches = True
    rate: Share = 0.5
    """Of the last block."""
    rule: Literal["linear", "constant"] = "linear"
    """The rate of block l of L: rate · l/L (Huang et al. 2016), or the same for all."""
    by: Literal["sample", "batch"] = "sample"
    """Whether every sample drops by itself, or the whole batch at once as in the publication."""

    def shape(self, samples: int, units: int) -> tuple[int, int]:
        """One number per sample, or one."""
        return (samples if self.by == "sample" else 1), 1

    def affine(self, u: Uniform, along: float) -> tuple[Any, Any]:
        """a is 0 or 1/(1 − rate of the block)."""
        rate = self.rate * (along if self.rule == "linear" else 1.0)
        return (u >= rate) / (1 - rate), 0.0

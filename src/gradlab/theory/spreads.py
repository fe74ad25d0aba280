"""How a size spreads over draws of the weights: log-normal numbers of S samples, and the standard deviation of a layer.

A probe's standard deviation is made of v = E (x − m̄)² over units, m̄ the mean over batch and units. Where f has a mean,
v spreads unlike p = E x²: with c a unit's values centered at m̄,

    n Cov(v_a, v_b) = Cov((x_a − m̄)², (x_b − m̄)²)                     what one layer adds
    v' = v + α² E (f − M̄)²                                            along a stream, whose q follows p, not v

so a stream carries the covariance of ln v and of ln v with ln p beside that of ln p.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.theory.inputs import Inputs, over_pairs
from gradlab.theory.laws import Law

Array = NDArray[Any]
LEAST = 1e-150
SMALLEST = 1e-290
"""A second moment below this is about to underflow, and a ratio of two of them says nothing."""


@dataclass(frozen=True)
class Spread:
    """A positive number of each sample over draws of the weights, against its value at infinite width.

    The logarithms are about jointly normal: their mean for a single sample, and their covariance over pairs of samples.
    """

    single_bias: float
    """E ln − ln of the infinite-width value, of a single sample."""
    covariance: Array
    """Of the logarithms, (S, S)."""
    batch: int
    """Samples of the batch that the S samples stand for."""

    @cached_property
    def single(self) -> float:
        """Variance of the logarithm, of a single sample."""
        return own_mean(self.covariance)

    @cached_property
    def variance(self) -> float:
        """Variance of the logarithm of the mean over the batch, a mean of log-normal numbers."""
        whole = over_pairs(np.expm1(np.minimum(self.covariance, 30.0)), self.batch)
        return float(np.log1p(max(whole, 0.0)))

    @cached_property
    def bias(self) -> float:
        """E ln − ln of the infinite-width value, of the mean over the batch."""
        return self.single_bias + 0.5 * (self.single - self.variance)

    def then(self, gain: float, curve: float, noise: Array | float) -> Spread:
        """After a map with d ln/d ln = gain and d² ln/d(ln)² = curve, which adds noise: a relative covariance."""
        added = 0.0 if isinstance(noise, float) else own_mean(noise)
        bias = gain * self.single_bias + 0.5 * curve * self.single - 0.5 * added
        return Spread(bias, gain**2 * self.covariance + noise, self.batch)

    def moved(self, bias: float) -> Spread:
        """With more bias."""
        return Spread(self.single_bias + bias, self.covariance, self.batch) if bias else self

    def plus(self, covariance: Array | float) -> Spread:
        """With more covariance and the same bias."""
        return Spread(self.single_bias, self.covariance + covariance, self.batch)


def no_spread(inputs: Inputs, variance: float = 0.0) -> Spread:
    """All samples together, log-normal around their mean."""
    size = len(inputs.x)
    return Spread(-0.5 * variance, np.full((size, size), variance), inputs.batch)


def own_mean(matrix: Array) -> float:
    """Mean of the diagonal."""
    return float(matrix.diagonal().sum()) / len(matrix)


def relative(covariance: Array, level: Array) -> Array:
    """A covariance over pairs of samples, relative to the level of each."""
    return _over(covariance, level, level)


def _over(covariance: Array, left: Array, right: Array) -> Array:
    return covariance * (1 / np.maximum(left, LEAST))[:, None] * (1 / np.maximum(right, LEAST))


@dataclass(frozen=True)
class Deviation:
    """v_a = E (x_a − m̄)² of S samples over draws."""

    level: Array
    """v_a, (S,)."""
    spread: Spread
    joint: Array
    """Covariance of ln p_a with ln v_b, (S, S)."""


@dataclass(frozen=True)
class Shifted:
    """Covariances of (f − M̄)² over one unit, less the Hermite orders that a norm or an orthogonal matrix fixes."""

    squares: Array
    """Cov((f_a − M̄)², (f_b − M̄)²)."""
    with_square: Array
    """Cov(f_a², (f_b − M̄)²)."""
    with_value: Array
    """Cov(f_a, (f_b − M̄)²)."""
    varying: Array
    """Cov(f_a, f_b)."""
    level: Array
    """E (f_a − M̄)², (S,)."""
    growth: float
    """d ln of the mean level/d ln q."""


def shift(law: Law, c: Array, taken: tuple[int, ...]) -> Shifted:
    """Center f at its mean over the batch."""
    middle = float(law.mean.mean())
    varying = law.second - law.mean[:, None] * law.mean
    v = law.second.diagonal()
    level = np.maximum(v - 2 * middle * law.mean + middle**2, 0.0)
    squares = law.square - 2 * middle * (law.cube + law.cube.T) + 4 * middle**2 * varying
    with_square = law.square - 2 * middle * law.cube.T
    with_value = law.cube - 2 * middle * varying
    for order in taken:
        of_f, of_square = law.orders[order - 1], law.square_orders[order - 1]
        shifted, power = of_square - 2 * middle * of_f, c**order
        squares = squares - shifted[:, None] * shifted * power
        with_square = with_square - of_square[:, None] * shifted * power
        with_value = with_value - of_f[:, None] * shifted * power
    grown = float(np.mean(v)) * law.growth - middle * float(np.mean(law.inner))
    whole = float(np.mean(level))
    growth = grown / whole if whole > SMALLEST else law.growth
    return Shifted(squares, with_square, with_value, varying, level, growth)


def behind_function(
    law: Law, c: Array, taken: tuple[int, ...], spread: Spread, excess: Array | float, n: int
) -> Deviation:
    """v of f(z) over n units, z with this spread of its variance; `excess` is what its kurtosis adds."""
    own = shift(law, c, taken)
    noise = (relative(own.squares, own.level) + excess) / n
    joint = (_over(own.with_square, law.second.diagonal(), own.level) + excess) / n
    joint = joint + law.growth * own.growth * spread.covariance
    return Deviation(own.level, spread.then(own.growth, 0.0, noise), joint)


@dataclass(frozen=True)
class Stream:
    """What a sum adds to: p and v of the stream with their spreads."""

    mean: Array
    second: Array
    spread: Spread
    deviation: Deviation
    width: int


def behind_sum(stream: Stream, own: Shifted, p: Array, alpha: float, gain: float, passed_on: float) -> Deviation:
    """v of x + α f: p is its new second moment, passed_on = d ln q/d ln p (0 behind a norm)."""
    before = stream.deviation
    level = np.maximum(before.level + alpha**2 * own.level, SMALLEST)
    whole = float(level.mean())
    from_v = float(before.level.mean()) / whole
    from_p = alpha**2 * float(own.level.mean()) * own.growth * passed_on / whole
    apart = stream.second - stream.mean[:, None] * stream.mean
    noise = relative(4 * alpha**2 * apart * own.varying + alpha**4 * own.squares, level) / stream.width
    lean = 2 * alpha**3 * stream.mean[:, None] * own.with_value
    joint = _over(4 * alpha**2 * apart * own.varying + lean + alpha**4 * own.with_square, p, level) / stream.width
    both = before.joint
    covariance = from_v**2 * before.spread.covariance + from_v * from_p * (both + both.T)
    covariance = covariance + from_p**2 * stream.spread.covariance + noise
    bias = from_v * before.spread.single_bias + from_p * stream.spread.single_bias - 0.5 * own_mean(noise)
    joint = joint + gain * (from_v * both + from_p * stream.spread.covariance)
    return Deviation(level, Spread(bias, covariance, stream.spread.batch), joint)

"""The way forward: initial weights, the signal of every layer and block, and how it spreads over draws.

The size of weights and biases, σw² = n_in Var W and σb² = Var b, is computed from the init's inverse CDF, so an init of
the user's own needs no entry here. An init whose entries are not independent is drawn a few times and measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.activations import Identity
from gradlab.network.initial import LayerInit
from gradlab.network.inits import Init, Orthogonal
from gradlab.network.mlp import MLP, Layer
from gradlab.network.norms import DynamicTanh, LayerNorm, NoNorm, RmsNorm
from gradlab.network.skips import (
    AddThenActivate,
    GatedSkip,
    Highway,
    IdentitySkip,
    NoSkip,
    PreActivation,
    ReZero,
    ScaledSkip,
)
from gradlab.parts import Catalog
from gradlab.spec.choice import InitChoice
from gradlab.streams import Streams
from gradlab.theory.inputs import Inputs, over_pairs
from gradlab.theory.laws import Elementwise, Law, correlation, law_of, overlap_of

Array = NDArray[Any]
DRAWS = 8
"""Matrices that are measured of an init whose entries are not independent."""


@dataclass(frozen=True)
class Weights:
    """The initial distribution of one weight matrix and its bias."""

    weight: float
    """σw² = n_in Var W."""
    bias: float
    """σb² = Var b."""
    is_centered: bool = True
    """Whether weights and biases have mean 0."""
    excess: float = 0.0
    """Excess kurtosis of one entry: 0 if normal, −1.2 if uniform; biases have the same."""
    calibrated: bool = False
    """Whether the init changes the drawn network by what it computes on data."""
    keeps_signal: bool = False
    """Whether ‖W x‖ is ‖x‖ up to a factor: an orthogonal matrix that does not narrow."""
    keeps_delta: bool = False
    """Whether ‖Wᵀ δ‖ is ‖δ‖ up to a factor: an orthogonal matrix that does not widen."""


def weights_by_layer(mlp: MLP, choice: InitChoice, catalog: Catalog) -> list[Weights]:
    """The initial distribution of every matrix and its bias."""
    biases = {slot.owner for slot in mlp.layout.slots if (slot.role, slot.group) == ("bias", "layer")}
    weights = []
    for layer in mlp.layers:
        drawn = LayerInit.of(choice, mlp, layer, catalog)
        init, scale = drawn.init, drawn.scale
        mean, variance, excess = _entry(init, layer.fan_in, layer.fan_out)
        bias = drawn.bias if layer.number in biases else 0.0
        of_bias = _entry(bias, layer.fan_in, layer.fan_out) if isinstance(bias, Init) else (bias, 0.0, 0.0)
        weights.append(
            Weights(
                layer.fan_in * variance * scale**2,
                of_bias[1],
                is_centered=abs(mean) <= 1e-9 * max(variance, 1e-300) ** 0.5 and abs(of_bias[0]) <= 1e-12,
                excess=excess,
                calibrated=init.calibrates,
                keeps_signal=isinstance(init, Orthogonal) and layer.fan_in <= layer.fan_out,
                keeps_delta=isinstance(init, Orthogonal) and layer.fan_in >= layer.fan_out,
            )
        )
    return weights


def projection_gain(mlp: MLP, fan_in: int, fan_out: int) -> float:
    """n_in Var of the matrix in a skip that changes the width."""
    _, variance, _ = _entry(mlp.projection, fan_in, fan_out)
    return fan_in * variance * mlp.projection_scale**2


def _entry(init: Init, fan_in: int, fan_out: int) -> tuple[float, float, float]:
    """(mean, variance, excess kurtosis) of one entry."""
    if isinstance(init, Orthogonal):
        return 0.0, 1 / max(fan_in, fan_out), 0.0
    if init.elementwise:
        return _by_quantile(init, fan_in, fan_out)
    drawn = [init.weights(Streams(0, draw).uniform("theory-init", (fan_in, fan_out))) for draw in range(DRAWS)]
    values = np.stack(drawn)
    spread = float(values.std()) / values.size**0.5
    mean = float(values.mean())
    variance = float(np.mean(values**2)) - mean**2
    return (0.0 if abs(mean) < 5 * spread else mean), variance, _excess(float(np.mean((values - mean) ** 4)), variance)


def _excess(fourth: float, variance: float) -> float:
    return fourth / variance**2 - 3.0 if variance > 0 else 0.0


@lru_cache(maxsize=4096)
def _by_quantile(init: Init, fan_in: int, fan_out: int) -> tuple[float, float, float]:
    """Moments of F⁻¹(u), with u = Φ(t): a trapezoid rule on t, smooth for normal and uniform entries alike."""
    from scipy.special import ndtr

    t = np.linspace(-8, 8, 801)
    density = np.exp(-0.5 * t * t)
    density /= density.sum()
    values = init.quantile(np.clip(ndtr(t), 1e-16, 1 - 1e-16), fan_in, fan_out)
    mean = float(density @ values)
    variance, fourth = (float(density @ (values - mean) ** power) for power in (2, 4))
    return (0.0 if abs(mean) < 1e-12 else mean), variance, _excess(fourth, variance)


# How a size spreads over draws of the weights: log-normal numbers of S samples, and the standard deviation of a layer.
#
# A probe's standard deviation is made of v = E (x − m̄)² over units, m̄ the mean over batch and units. Where f has a
# mean, v spreads unlike p = E x²: with c a unit's values centered at m̄,
#
#     n Cov(v_a, v_b) = Cov((x_a − m̄)², (x_b − m̄)²)                     what one layer adds
#     v' = v + α² E (f − M̄)²                                            along a stream, whose q follows p, not v
#
# so a stream carries the covariance of ln v and of ln v with ln p beside that of ln p.

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


def less_orders(whole: Array, taken: tuple[int, ...], c: Array, left: Sequence[Array], right: Sequence[Array]) -> Array:
    """A covariance over one unit without the Hermite orders that a norm or an orthogonal matrix holds fixed."""
    for order in taken:
        whole = whole - left[order - 1][:, None] * right[order - 1] * c**order
    return whole


def shift(law: Law, c: Array, taken: tuple[int, ...]) -> Shifted:
    """Center f at its mean over the batch."""
    middle = float(law.mean.mean())
    varying = law.second - law.mean[:, None] * law.mean
    v = law.second.diagonal()
    level = np.maximum(v - 2 * middle * law.mean + middle**2, 0.0)
    squares = law.square - 2 * middle * (law.cube + law.cube.T) + 4 * middle**2 * varying
    with_square = law.square - 2 * middle * law.cube.T
    with_value = law.cube - 2 * middle * varying
    shifted = tuple(square - 2 * middle * f for square, f in zip(law.square_orders, law.orders, strict=True))
    squares = less_orders(squares, taken, c, shifted, shifted)
    with_square = less_orders(with_square, taken, c, law.square_orders, shifted)
    with_value = less_orders(with_value, taken, c, law.orders, shifted)
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


def behind_sum(stream: Signal, own: Shifted, p: Array, alpha: float, gain: float, passed_on: float) -> Deviation:
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


# The signal that goes forward: mean and second moments of a layer's units, and their spread over draws.
#
#     z = W x + b         K = σw² P + σb²                     P_ab = E x_a x_b over units, K_ab the same for z
#     norm                K_ab/√((K_aa + ε)(K_bb + ε))        layer and RMS norm; a dynamic tanh joins the activation
#     x' = f(z)           P' = C(K), m' = M(K)
#     x' = x + α f(z)     P' = P + α (m Mᵀ + M mᵀ) + α² C(K), m' = m + α M        the mean of f adds up along the stream
#     x' = x + W f(x)     P' = P + σw² C(P) + σb²             x stays Gaussian
#
# At finite width n the realized second moment p spreads over draws. Per layer, ln p gains the variance κ/n with κ = Var
# f²/V² over the batch, and the spread that is already there is passed on with d ln V/d ln q; so ln p is about normal,
# and its mean is below the logarithm of the mean (Hanin & Nica 2018 for homogeneous f, where the sum is κ Σ 1/n).


@dataclass(frozen=True)
class Signal:
    """The units of a layer for S samples, in the limit of many units."""

    mean: Array
    """E x_a over units, (S,)."""
    second: Array
    """E x_a x_b, (S, S)."""
    width: int
    spread: Spread
    """Of the batch's mean second moment."""
    carries_input: bool = False
    """Whether the network's input is still added in it, unchanged: a stream without a stem."""
    fourth: Array | None = None
    """E x_a² x_b²/(p_a p_b), (S, S); None if it is about that of Gaussian numbers."""
    shape: Array | float = 0.0
    """Covariance of ln p with the mean of f² over units in the last block, in a stream that is activated first."""
    about_mean: Callable[[], Deviation] | None = None
    """How E (x − m̄)² spreads; None where the mean is 0."""

    @cached_property
    def deviation(self) -> Deviation:
        """Of what a standard deviation is made."""
        if self.about_mean is not None:
            return self.about_mean()
        return Deviation(self.second.diagonal(), self.spread, self.spread.covariance)

    @cached_property
    def p(self) -> float:
        """Mean second moment over the samples."""
        return float(self.second.trace()) / len(self.second)

    @cached_property
    def m(self) -> float:
        """Mean over the samples."""
        return float(self.mean.mean())

    @cached_property
    def correlation(self) -> Array:
        """Of two samples over units, about 0, (S, S)."""
        return correlation(self.second)

    @cached_property
    def overlap(self) -> float:
        """Mean correlation of two different samples."""
        return overlap_of(self.second)


@dataclass(frozen=True)
class Passed:
    """One layer on the way forward, with what the way back needs."""

    layer: Layer
    weights: Weights
    entry: Signal
    """What the matrix multiplies."""
    covariance: Array
    """Of z = W x + b."""
    scale: Array
    """What the norm divides each sample by, (S,)."""
    seen: Array
    """Covariance of what enters the function."""
    c: Array
    """Its correlation."""
    spread: Spread
    """Of the mean variance that enters the function."""
    units: Spread
    """Of the variance of z before the norm at given units of x; of a stream that is normed first, its own."""
    law: Law
    out: Signal
    """What leaves the function (or, where the function stands first, the matrix)."""
    taken: tuple[int, ...]
    """Orders of the Hermite expansion that the norm or an orthogonal matrix holds fixed."""
    noise: Array
    """What the function adds to the spread of the second moment."""
    excess: Array | float
    """Cov(z_a², z_b²)/(q_a q_b) beyond that of Gaussian numbers: weights and biases need not be normal."""

    @property
    def is_normed(self) -> bool:
        """Whether a norm holds the variance fixed that enters the function."""
        return isinstance(self.layer.norm, LayerNorm | RmsNorm)

    @property
    def kurtosis(self) -> float:
        """Excess kurtosis of z in a unit: −6/n on a sphere, where a norm or an orthogonal matrix puts it."""
        if self.is_normed or (self.is_kept and not self.layer.activates_first):
            return -6 / self.layer.units
        return 0.0 if isinstance(self.excess, float) or self.layer.activates_first else own_mean(self.excess)

    @property
    def is_kept(self) -> bool:
        """Whether an orthogonal matrix without a bias holds ‖z‖ fixed at a given ‖x‖."""
        return self.weights.keeps_signal and self.weights.bias == 0

    @property
    def linear_part(self) -> Array:
        """σw² p/q: how much of z is W x, not b, (S,)."""
        q = np.maximum(self.covariance.diagonal(), 1e-300)
        return np.asarray(self.weights.weight * self.entry.second.diagonal() / q)


Sum = tuple[Signal, float, Array]
"""The stream behind a block, d ln p'/d ln p along it, and what the block adds to the spread of p'."""


def linear(entry: Signal, weights: Weights) -> tuple[Array, Spread]:
    """(covariance of z, spread of its mean variance), z = W x + b."""
    covariance = weights.weight * entry.second + weights.bias
    part = float(np.trace(weights.weight * entry.second)) / max(float(covariance.trace()), 1e-300)
    return covariance, entry.spread.then(part, part * (1 - part), 0.0)


def normalize(layer: Layer, covariance: Array, spread: Spread) -> tuple[Array, Array, Spread, tuple[int, ...]]:
    """(what the norm divides by, covariance behind it, spread behind it, Hermite orders that it holds fixed)."""
    norm = layer.norm
    if isinstance(norm, LayerNorm | RmsNorm):
        scale = np.sqrt(covariance.diagonal() + norm.epsilon)
        orders = (1, 2) if isinstance(norm, LayerNorm) else (2,)
        fixed = Spread(0.0, np.zeros_like(covariance), spread.batch)
        return scale, covariance / (scale[:, None] * scale), fixed, orders
    return np.ones(len(covariance)), covariance, spread, ()


def function_of(layer: Layer) -> Elementwise:
    """The layer's activation, with a dynamic tanh in front if that is its norm."""
    norm = layer.norm
    return Elementwise(layer.activation, norm.start if isinstance(norm, DynamicTanh) else None)


def covers_norm(layer: Layer) -> bool:
    """Whether the theory knows the layer's norm."""
    return type(layer.norm) in (NoNorm, LayerNorm, RmsNorm, DynamicTanh)


def noise_of(law: Law, c: Array, taken: tuple[int, ...]) -> Array:
    """κ: relative covariance of f² of one unit over pairs of samples."""
    covariance = less_orders(law.square, taken, c, law.square_orders, law.square_orders)
    return relative(covariance, law.second.diagonal())


def excess_of(entry: Signal, weights: Weights, covariance: Array) -> Array | float:
    """Cov(z_a², z_b²)/(q_a q_b) beyond Gaussian numbers: k (σw⁴ E x_a² x_b²/n_in + σb⁴), k the excess kurtosis."""
    if abs(weights.excess) < 1e-3:
        return 0.0
    p, q = entry.second.diagonal(), covariance.diagonal()
    fourth = 1 + 2 * entry.correlation**2 if entry.fourth is None else entry.fourth
    whole = weights.weight**2 * fourth * (p[:, None] * p) / entry.width + weights.bias**2
    return weights.excess * relative(whole, q)


def _excess_behind(law: Law, seen: Array, excess: Array | float) -> Array | float:
    """What that adds to the relative covariance of f²: z enters f² with f'²."""
    if isinstance(excess, float):
        return excess
    q, v = np.maximum(seen.diagonal(), 1e-300), np.maximum(law.second.diagonal(), 1e-300)
    return excess * (relative(law.slope2, v / q) if law.bend is None else law.bend)


def pass_layer(layer: Layer, weights: Weights, entry: Signal) -> Passed:
    """f(norm(W x + b))."""
    covariance, units = linear(entry, weights)
    scale, seen, spread, taken = normalize(layer, covariance, units)
    c = correlation(seen)
    law = law_of(function_of(layer), seen, c)
    if weights.keeps_signal and weights.bias == 0 and not taken:
        taken = (2,)
    excess = 0.0 if taken else excess_of(entry, weights, covariance)
    added, n = _excess_behind(law, seen, excess), layer.fan_out
    kappa = noise_of(law, c, taken) + added
    after = spread.then(law.growth, law.growth2, kappa / n)
    about_mean = partial(behind_function, law, c, taken, spread, added, n)
    out = Signal(law.mean, law.second, n, after, fourth=1 + kappa, about_mean=about_mean)
    found = Passed(layer, weights, entry, covariance, scale, seen, c, spread, units, law, out, taken, kappa / n, excess)
    return replace(found, out=replace(out, spread=after.moved(found.kurtosis * law.fourths[0])))


def pass_activated_first(layer: Layer, weights: Weights, stream: Signal) -> Passed:
    """W f(norm(x)) + b, with a Gaussian x."""
    scale, seen, spread, taken = normalize(layer, stream.second, stream.spread)
    taken = tuple(sorted({2, *taken}))  # the stream's realized size is known
    c = correlation(seen)
    law = law_of(function_of(layer), seen, c)
    kappa, n = noise_of(law, c, taken), layer.fan_in
    about_mean = partial(behind_function, law, c, taken, spread, 0.0, n)
    own = spread.then(law.growth, law.growth2, kappa / n)
    entry = Signal(law.mean, law.second, n, own, fourth=1 + kappa, about_mean=about_mean)
    covariance, given = linear(entry, weights)
    excess = excess_of(entry, weights, covariance)
    kept = weights.keeps_signal and weights.bias == 0
    drawn = 0.0 * covariance if kept else 2 * correlation(covariance) ** 2 + excess
    after = given.then(1, 0, drawn / layer.fan_out)
    out = Signal(np.zeros(len(seen)), covariance, layer.fan_out, after)
    size = stream.spread
    return Passed(layer, weights, entry, covariance, scale, seen, c, spread, size, law, out, taken, kappa / n, excess)


def add_branch(stream: Signal, last: Passed, alpha: float) -> Sum:
    """x + α F, where F ends in a function of fresh Gaussian numbers."""
    law, branch = last.law, last.out
    cross = stream.mean[:, None] * law.mean
    second = stream.second + alpha * (cross + cross.T) + alpha**2 * branch.second
    mean = stream.mean + alpha * law.mean
    size = len(second)
    p, total = stream.p, float(second.trace()) / size
    shared = float(cross.trace()) / size
    part = float(np.trace(last.weights.weight * last.entry.second)) / max(float(last.covariance.trace()), 1e-300)
    passed_on = law.growth * part if last.entry is stream and not last.is_normed else 0.0
    gain = (p + alpha * shared + (alpha * shared + alpha**2 * branch.p) * passed_on) / total if total > 0 else 0.0
    c = last.c
    times_mean = tuple(stream.mean * of_f for of_f in law.orders)
    moving = stream.second * (law.second - law.mean[:, None] * law.mean)  # of x f over one unit
    moving = less_orders(moving, last.taken, c, times_mean, times_mean)
    squares = less_orders(law.square, last.taken, c, law.square_orders, law.square_orders)
    lean = less_orders(stream.mean[:, None] * law.cube, last.taken, c, times_mean, law.square_orders)
    covariance = 4 * alpha**2 * moving + alpha**4 * squares + 2 * alpha**3 * (lean + lean.T)
    noise = relative(covariance, second.diagonal()) / stream.width
    spread = stream.spread.then(gain, 0.0, noise)
    fresh = part if last.entry is stream and not last.is_normed else 0.0

    def about_mean() -> Deviation:
        return behind_sum(stream, shift(law, c, last.taken), second.diagonal(), alpha, gain, fresh)

    out = Signal(mean, second, stream.width, spread, carries_input=stream.carries_input, about_mean=about_mean)
    return out, gain, noise


def add_gaussian_branch(stream: Signal, last: Passed) -> Sum:
    """x + W f(x) + b with a Gaussian x: the sum is Gaussian."""
    branch = last.out
    second = stream.second + branch.second
    size = len(second)
    total = float(second.trace()) / size
    gain = (stream.p + branch.p * last.law.growth * (0 if last.is_normed else 1)) / total if total > 0 else 0.0
    noisy = 4 * stream.second * branch.second + 2 * branch.second**2
    drawn = relative(noisy, second.diagonal()) / stream.width
    part = branch.p / total if total > 0 else 0.0
    orders = [float(np.mean(own**2)) for own in last.law.square_orders]
    before = persistence(last.law.square.diagonal(), orders, last.taken, sqrt(1 - part)) * stream.shape
    noise = drawn + part**2 * last.noise + 2 * part * before
    spread = stream.spread.then(gain, 0.0, noise)
    out = Signal(
        stream.mean, second, stream.width, spread, carries_input=stream.carries_input,
        shape=before + part * last.noise,
    )  # fmt: skip
    return out, gain, noise


def persistence(whole: Array, orders: Sequence[float], taken: tuple[int, ...], c: float) -> float:
    """Correlation of g(x) of a unit in two layers whose streams have the correlation c, g being f² or f'².

    A stream that is activated first keeps its values from layer to layer, so that g of a unit stays what it is, where
    fresh weights would draw it anew. `whole` is Var g, `orders` its Hermite orders 1 and 2; the rest
    counts as the fourth.
    """
    rest = max(float(np.mean(whole)) - sum(orders), 0.0)
    first, second = (0.0 if order in taken else own for order, own in enumerate(orders, 1))
    total = first + second + rest
    return (first * c + second * c**2 + rest * c**4) / total if total > 1e-300 else 0.0


def project(stream: Signal, gain: float, width: int) -> Signal:
    """x P, where a skip changes the width: Gaussian with mean 0."""
    return Signal(np.zeros(len(stream.mean)), gain * stream.second, width, stream.spread)


# A network on its way forward: every layer and block with its signal, or why the theory does not cover it.


@dataclass(frozen=True)
class PassedBlock:
    """One block on the way forward."""

    layers: tuple[Passed, ...]
    stream: Signal
    """What enters the sum along the skip."""
    out: Signal
    alpha: float | None
    """What multiplies the branch; None without a skip."""
    projection: float | None
    """n_in Var of the matrix in the skip, where the width changes."""
    gain: float = 1.0
    """d ln p'/d ln p along the block."""
    noise: Array | float = 0.0
    """What the block adds to the spread of p'."""


@dataclass(frozen=True)
class Walk:
    """The whole network."""

    entry: Signal
    stem: Passed | None
    blocks: tuple[PassedBlock, ...]
    head: Passed | None

    @property
    def layers(self) -> tuple[Passed, ...]:
        """In forward order."""
        inner = [layer for block in self.blocks for layer in block.layers]
        return tuple(layer for layer in (self.stem, *inner, self.head) if layer is not None)

    @property
    def top(self) -> Signal:
        """What the head multiplies, or what the loss sees if there is none."""
        if self.blocks:
            return self.blocks[-1].out
        return self.stem.out if self.stem is not None else self.entry


def branch_factor(mlp: MLP, block: int) -> float | None:
    """α in x + α F of a block (from 0); None without a skip."""
    skip = mlp.skip
    if isinstance(skip, NoSkip):
        return None
    if isinstance(skip, ScaledSkip):
        return mlp.constants_of(block)["alpha"]
    return skip.start if isinstance(skip, ReZero | GatedSkip) else 1.0


def why_not_forward(mlp: MLP, weights: list[Weights]) -> str | None:
    """Why the theory does not cover the signal of a network; None if it does."""
    skip = mlp.skip
    if isinstance(skip, AddThenActivate):
        return "the density of a stream that is activated is not Gaussian, and its theory is not derived"
    if isinstance(skip, Highway):
        return "the gate of a Highway skip depends on the signal"
    if type(skip) not in (NoSkip, IdentitySkip, ScaledSkip, ReZero, GatedSkip, PreActivation):
        return f"the skip {skip.name!r} has no theory"
    for layer in mlp.layers:
        if not covers_norm(layer):
            return (
                "batch norm mixes the samples of a batch; its theory is the limit of large batches"
                if layer.norm.name == "batch"
                else f"the norm {layer.norm.name!r} has no theory"
            )
    if any(own.calibrated for own in weights):
        return "the init is calibrated on data"
    if not all(own.is_centered for own in weights):
        return "the init's weights do not have mean 0"
    if mlp.output_scale != 1.0:
        return "theory does not scale outputs"
    stem = mlp.stem
    if isinstance(skip, PreActivation) and (
        stem is None or not (isinstance(stem.activation, Identity) and stem.norm.name == "none")
    ):
        return "the stream of a pre-activation network is Gaussian only behind a stem without activation"
    return None


def walk(mlp: MLP, weights: list[Weights], inputs: Inputs) -> Walk:
    """Carry the inputs' moments through the network."""
    spread = no_spread(inputs, inputs.spread)
    entry = _enter(inputs, spread, mlp.stem is None)
    h, stem = entry, None
    if mlp.stem is not None:
        stem = pass_layer(mlp.stem, weights[0], h)
        h = stem.out
    blocks = []
    for index, block in enumerate(mlp.blocks):
        alpha = branch_factor(mlp, index)
        stream, gain = h, None
        before, after = block[0].fan_in, block[-1].fan_out
        if alpha is not None and before != after:
            gain = projection_gain(mlp, before, after)
            stream = project(h, gain, after)
        passed: list[Passed] = []
        x = h
        for layer in block:
            through = pass_activated_first if layer.activates_first else pass_layer
            passed.append(through(layer, weights[layer.number - 1], x))
            x = passed[-1].out
        if alpha is None:
            h, slope, noise = x, 1.0, np.zeros_like(x.second)
        elif isinstance(mlp.skip, PreActivation):
            h, slope, noise = add_gaussian_branch(stream, passed[-1])
        else:
            h, slope, noise = add_branch(stream, passed[-1], alpha)
        blocks.append(PassedBlock(tuple(passed), stream, h, alpha, gain, slope, noise))
    head = None if mlp.head is None else pass_layer(mlp.head, weights[-1], h)
    return Walk(entry, stem, tuple(blocks), head)


def _enter(inputs: Inputs, spread: Spread, carries_input: bool) -> Signal:
    """The task's samples as a signal."""
    squares = inputs.x**2
    p = inputs.second.diagonal()
    fourth = relative(squares @ squares.T / inputs.x.shape[1], p)
    mean = inputs.x.mean(1)

    def about_mean() -> Deviation:
        middle = float(mean.mean())
        return Deviation(p - 2 * middle * mean + middle**2, spread, spread.covariance)

    width = inputs.x.shape[1]
    return Signal(mean, inputs.second, width, spread, carries_input=carries_input, fourth=fourth, about_mean=about_mean)


def is_finite(network: Walk) -> bool:
    """Whether no second moment overflowed."""
    return all(bool(np.isfinite(layer.out.p)) for layer in network.layers)

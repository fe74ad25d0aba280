"""The signal that goes forward: mean and second moments of a layer's units, and their spread over draws.

    z = W x + b         K = σw² P + σb²                     P_ab = E x_a x_b over units, K_ab the same for z
    norm                K_ab/√((K_aa + ε)(K_bb + ε))        layer and RMS norm; a dynamic tanh joins the activation
    x' = f(z)           P' = C(K), m' = M(K)
    x' = x + α f(z)     P' = P + α (m Mᵀ + M mᵀ) + α² C(K), m' = m + α M        the mean of f adds up along the stream
    x' = x + W f(x)     P' = P + σw² C(P) + σb²             x stays Gaussian

At finite width n the realized second moment p spreads over draws. Per layer, ln p gains the variance κ/n with
κ = Var f²/V² over the batch, and the spread that is already there is passed on with d ln V/d ln q; so ln p is about
normal, and its mean is below the logarithm of the mean (Hanin & Nica 2018 for homogeneous f, where the sum is κ Σ 1/n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.mlp import Layer
from gradlab.network.norms.dynamic_tanh import DynamicTanh
from gradlab.network.norms.layer import LayerNorm
from gradlab.network.norms.none import NoNorm
from gradlab.network.norms.rms import RmsNorm
from gradlab.theory.laws import Elementwise, Law, correlation, law_of
from gradlab.theory.spreads import Deviation, Spread, Stream, behind_function, behind_sum, own_mean, relative, shift
from gradlab.theory.weights import Weights

Array = NDArray[Any]


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
    is_gaussian: bool = False
    """Whether a unit's values are jointly Gaussian with mean 0."""
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
        c = self.correlation
        size = len(c)
        return float((c.sum() - c.trace()) / (size * (size - 1))) if size > 1 else 1.0


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


@dataclass(frozen=True)
class Sum:
    """A stream behind the sum of a block."""

    out: Signal
    gain: float
    """d ln p'/d ln p."""
    noise: Array
    """What the block adds to the spread of p'."""


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
    covariance = law.square
    for order in taken:
        own = law.square_orders[order - 1]
        covariance = covariance - (own[:, None] * own) * c**order
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

    def about_mean() -> Deviation:
        return behind_function(law, c, taken, spread, added, n)

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

    def about_mean() -> Deviation:
        return behind_function(law, c, taken, spread, 0.0, n)

    own = spread.then(law.growth, law.growth2, kappa / n)
    entry = Signal(law.mean, law.second, n, own, fourth=1 + kappa, about_mean=about_mean)
    covariance, given = linear(entry, weights)
    excess = excess_of(entry, weights, covariance)
    kept = weights.keeps_signal and weights.bias == 0
    drawn = 0.0 * covariance if kept else 2 * correlation(covariance) ** 2 + excess
    after = given.then(1, 0, drawn / layer.fan_out)
    out = Signal(np.zeros(len(seen)), covariance, layer.fan_out, after, is_gaussian=True)
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
    lean, squares = stream.mean[:, None] * law.cube, law.square
    moving = stream.second * (law.second - law.mean[:, None] * law.mean)  # of x f over one unit
    for order in last.taken:
        of_f, of_square = law.orders[order - 1], law.square_orders[order - 1]
        moving = moving - ((stream.mean * of_f)[:, None] * (stream.mean * of_f)) * c**order
        squares = squares - (of_square[:, None] * of_square) * c**order
        lean = lean - ((stream.mean * of_f)[:, None] * (of_square)) * c**order
    covariance = 4 * alpha**2 * moving + alpha**4 * squares + 2 * alpha**3 * (lean + lean.T)
    noise = relative(covariance, second.diagonal()) / stream.width
    spread = stream.spread.then(gain, 0.0, noise)
    fresh = part if last.entry is stream and not last.is_normed else 0.0

    def about_mean() -> Deviation:
        below = Stream(stream.mean, stream.second, stream.spread, stream.deviation, stream.width)
        return behind_sum(below, shift(law, c, last.taken), second.diagonal(), alpha, gain, fresh)

    out = Signal(mean, second, stream.width, spread, carries_input=stream.carries_input, about_mean=about_mean)
    return Sum(out, gain, noise)


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
        stream.mean, second, stream.width, spread, is_gaussian=True, carries_input=stream.carries_input,
        shape=before + part * last.noise,
    )  # fmt: skip
    return Sum(out, gain, noise)


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
    return Signal(np.zeros(len(stream.mean)), gain * stream.second, width, stream.spread, is_gaussian=True)

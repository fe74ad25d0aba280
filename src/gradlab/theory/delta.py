"""The way back: the δ that the loss sends, and what becomes of it on its way to the first layer.

In the limit of many units the outputs of S samples are Gaussian with a known covariance. So they are drawn, and the
loss itself (any loss) says what it makes of them: the expected initial loss, E δ_a δ_b over the outputs, and how both
spread over seeds. Few outputs spread most: with one output δ is proportional to one Gaussian number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.losses import Loss
from gradlab.theory.inputs import Inputs
from gradlab.theory.laws import correlation
from gradlab.theory.signal import (
    Passed,
    PassedBlock,
    Signal,
    Spread,
    Walk,
    function_of,
    less_orders,
    own_mean,
    persistence,
    relative,
)

Array = NDArray[Any]
Terms = tuple[Array, Array, Array]
DRAWS = 96
GRID = 20
"""Shares of s² at which the fluctuation of the top is computed; between them it is interpolated."""


@dataclass(frozen=True)
class Source:
    """What ‖δ‖² of a layer inherits from the top."""

    bias: float
    """E ln − ln of the infinite-width value."""
    whole: float
    """Variance of the logarithm."""
    variance: float
    """The same at a given size of the signal."""
    lean: float
    """d ln/d ln of the signal's second moment."""


@dataclass(frozen=True)
class Top:
    """dL/dz of the head, or dL/dx of the last stream where there is no head."""

    second: Array
    """E δ_a δ_b over outputs, (S, S), with the batch's 1/B."""
    pairs: Array
    """E (δ_a · δ_b/k)²: few outputs overlap by chance, (S, S)."""
    peak: Array
    """E Σ_j δ_ja² δ_jb²/(‖δ_a‖² ‖δ_b‖²): near 1 where one output has most of δ, (S, S)."""
    aligned: Array
    """E s_a s_b with s_a = δ_a · (z_a − b): how far δ points along the signal, (S, S)."""
    sizes: Array
    """‖δ_a‖² in every draw, (draws, S), over its mean at infinite width."""
    seeds: Array
    """s_a²/p_a in every draw, (draws, S), over its mean at infinite width."""
    shifts: Array
    """ln of the realized size of the signal in every draw."""
    batch: int
    losses: Array
    """The initial loss in every draw."""
    losses_by_sample: Array
    """The same of every sample, over all draws."""
    output_scale: float
    """Root mean square of the outputs."""

    def source(self, seeded: float) -> Source:
        """How ‖δ‖² fluctuates where this share of it stems from s²."""
        place = min(max(seeded, 0.0), 1.0) * GRID
        low = min(int(place), GRID - 1)
        t, left, right = place - low, self._at(low), self._at(low + 1)
        return Source(*((1 - t) * a + t * b for a, b in zip(vars(left).values(), vars(right).values(), strict=True)))

    @cached_property
    def _at(self) -> Callable[[int], Source]:
        return cache(lambda place: self._fluctuate(place / GRID))

    def _fluctuate(self, h: float) -> Source:
        """Of the mean over a batch of B other samples, from the S samples of every draw.

        Var = Var of the mean of S − Var of one at a given sample/S + Var of one/B.
        """
        each = (1 - h) * self.sizes + h * self.seeds
        draws, samples = each.shape
        means = np.maximum(each.mean(1), 1e-300)
        logs, apart = np.log(means), each / means[:, None]
        moved = float(np.var(self.shifts))
        lean = float(np.mean((self.shifts - self.shifts.mean()) * logs)) / moved if moved > 1e-12 else 0.0
        of_one = float(np.mean(np.var(apart, 1)))
        of_noise = float(np.mean(np.var(apart - apart.mean(0), 1)))
        change = of_one / self.batch - (of_noise / samples if samples > 1 else 0.0)
        whole = float(np.var(logs, ddof=1)) if draws > 1 else 0.0
        changed = max(whole + change, lean**2 * moved, 0.1 * whole)
        bias = float(logs.mean()) - 0.5 * (changed - whole)
        return Source(bias, changed, max(changed - lean**2 * moved, 0.0), lean)


def draw_top(network: Walk, loss: Loss, inputs: Inputs) -> Top:
    """Draw outputs, and let the loss answer: once at infinite width, once with the signal's own spread."""
    samples, batch = len(inputs.x), inputs.batch
    head = network.head
    last = network.blocks[-1] if network.blocks else None
    own = (
        head.units
        if head is not None
        else last.layers[-1].spread
        if last and last.alpha is None
        else network.top.spread
    )
    width = network.top.width if head is None else head.layer.fan_out
    draws = DRAWS if samples * width > 200 else 4 * DRAWS
    make, generator = _maker(network, inputs, width), np.random.default_rng(20_180_101)
    normal = generator.standard_normal((draws, samples + 1, width))
    normal = np.concatenate([normal, -normal])  # δ and −δ: outputs whose mean over draws is exactly 0
    shifts = generator.standard_normal(2 * draws)
    shifts = (shifts - shifts.mean()) / shifts.std() * np.sqrt(max(own.variance, 0.0))
    y = np.concatenate([inputs.y] * (2 * draws))

    def answer(moved: Array) -> tuple[Array, Array, Array]:
        """(outputs, δ, s²/p) of all draws."""
        z, linear = make(normal, np.exp(0.5 * moved)[:, None, None])
        output, slope = _activate(network, z)
        _, gradient = loss.value_and_gradient(output.reshape(-1, width), y)
        delta = np.asarray(gradient, np.float64).reshape(z.shape) * (2 * draws * samples / batch) * slope
        return output, delta, np.sum(delta * linear, 2)

    _, delta, along = answer(np.zeros(2 * draws))
    overlaps, squares = delta @ delta.transpose(0, 2, 1) / width, delta**2
    sizes = squares.sum(2)
    scale = np.maximum(sizes[:, :, None] * sizes[:, None, :], 1e-300)
    peak = np.mean(squares @ squares.transpose(0, 2, 1) / scale, 0)
    p = np.maximum(network.top.second.diagonal(), 1e-300)
    limits = [max(float(np.mean(values)), 1e-300) for values in (sizes, along**2 / p)]
    output, moved_delta, moved_along = answer(own.bias + shifts)
    moved_p = p * np.exp(own.bias + shifts)[:, None]
    by_draw = output.reshape(2 * draws, samples, width)
    return Top(
        overlaps.mean(0),
        np.mean(overlaps**2, 0),
        peak,
        along.T @ along / len(along),
        np.sum(moved_delta**2, 2) / limits[0],
        moved_along**2 / moved_p / limits[1],
        shifts,
        batch,
        np.array([loss.value(one, inputs.y) for one in by_draw[:draws]]),
        np.array([loss.value(by_draw[:, n], np.repeat(inputs.y[n : n + 1], 2 * draws, 0)) for n in range(samples)]),
        float(np.mean(output**2)) ** 0.5,
    )


Maker = Callable[[Array, Array], tuple[Array, Array]]


def _maker(network: Walk, inputs: Inputs, width: int) -> Maker:
    """A function that makes (what enters the output's function, its part that is linear in the last signal).

    Of normal numbers, (draws, S + 1, width), and of how much larger the signal is in every draw, (draws, 1, 1).
    """
    samples = len(inputs.x)
    if network.head is not None:
        head = network.head
        root = _root(head.weights.weight * head.entry.second)
        offset = np.sqrt(head.weights.bias)

        def make(normal: Array, size: Array) -> tuple[Array, Array]:
            linear = size * (root @ normal[:, :samples])
            return linear + offset * normal[:, samples:], linear

        return make
    last = network.blocks[-1] if network.blocks else None
    if last is not None and last.alpha is None:  # f(z) with a Gaussian z
        layer = last.layers[-1]
        root = _root(layer.seen)
        function = function_of(layer.layer)

        def make_plain(normal: Array, size: Array) -> tuple[Array, Array]:
            x = size * function.value(root @ normal[:, :samples])
            return x, x

        return make_plain
    top = network.top
    carried = inputs.x if top.carries_input else np.zeros((samples, width))
    own_mean = top.mean - carried.mean(1)
    across = np.outer(carried.mean(1), own_mean)
    rest = top.second - carried @ carried.T / width - across - across.T - np.outer(own_mean, own_mean)
    root = _root(rest)

    def make_stream(normal: Array, size: Array) -> tuple[Array, Array]:
        x = carried + size * (own_mean[:, None] + root @ normal[:, :samples])
        return x, x

    return make_stream


def _activate(network: Walk, z: Array) -> tuple[Array, Array]:
    """(output, slope); only a head has a function of its own left."""
    if network.head is None:
        return z, np.ones_like(z)
    activation = network.head.layer.activation
    output = activation.forward(z)
    return output, activation.slope(z, output)


def _root(matrix: Array) -> Array:
    """R with R Rᵀ = matrix, whatever its rank."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))


# What comes back through a layer: dL/dx with its spread, and where it stems from.
#
# **Two sources.** With s = δ·z at the top, ‖δ‖² below it has a part that stems from ‖δ_top‖² and a part that stems from
# s²: each layer turns s²/‖x‖² of the aligned part into fresh bulk (see below). Both fluctuate over seeds, s² far more.
# With the share h of the second part, ln ‖δ‖² fluctuates as ln((1 − h) B + h S) of the two numbers at the top, which
# are drawn.
#
# **The lean.** ‖δ_top‖² depends on the realized size p of the signal, ln ‖δ‖² = λ ln p + …, and so does every δ below:
# ln ‖g_l‖² = (A λ + C) ln p_l + …. λ depends on h, so the covariance is kept as a polynomial in it, K0 + λ K1 + λ² K2.


@dataclass(frozen=True)
class Gathered:
    """What the layers above add to the spread of ‖g‖² at a given size of the signal here."""

    single_bias: float
    terms: Terms
    """K0, K1, K2: covariance of the logarithms of two samples by powers of λ, (S, S) each."""
    slope: float
    """A in d ln ‖g‖²/d ln p = A λ + C."""
    offset: float
    """C."""
    batch: int

    @staticmethod
    def start(samples: int, batch: int, part: float) -> Gathered:
        """At the top: nothing but the lean itself."""
        zero = np.zeros((samples, samples))
        return Gathered(0.0, (zero, zero, zero), part, 0.0, batch)

    def lean(self, top: float) -> float:
        """d ln ‖g‖²/d ln p where that of the top is `top`."""
        return self.slope * top + self.offset

    def at(self, top: float) -> Spread:
        """The spread where the lean of the top is `top`."""
        k0, k1, k2 = self.terms
        return Spread(self.single_bias, k0 + top * k1 + top**2 * k2, self.batch)

    def with_noise(self, bias: float, noise: Array, of_signal: Array | float, shared: Array | float) -> Gathered:
        """With noise of its own, and noise of p that δ leans on; `shared` is the covariance of both."""
        a, c = self.slope, self.offset
        k0, k1, k2 = self.terms
        k0 = k0 + noise + c**2 * of_signal + c * shared
        return replace(
            self,
            single_bias=self.single_bias + bias,
            terms=(k0, k1 + 2 * a * c * of_signal + a * shared, k2 + a**2 * of_signal),
        )

    def leaning(self, slope: float, offset: float) -> Gathered:
        """With another lean."""
        return replace(self, slope=slope, offset=offset)


@dataclass(frozen=True)
class Back:
    """dL/dx of a layer's output for S samples."""

    across: Array
    """E g⊥_a g⊥_b over units, (S, S): the part that does not point along the signal."""
    pairs: Array
    """E of the squared realized overlap (g_a · g_b/n)², (S, S)."""
    aligned: Array
    """E s_a s_b, (S, S)."""
    gathered: Gathered
    seeded: float = 0.0
    """Share of `across` that stems from s² at the top."""
    pure: float = 1.0
    """Share of `aligned` that stems from s² at the top."""
    excess: Array | float = 0.0
    """E g_a² g_b² of a unit beyond that of Gaussian numbers, relative, (S, S): weights need not be normal."""
    is_kept: bool = False
    """Whether an orthogonal matrix made it, so that ‖g‖ is ‖δ‖ of the layer above."""
    masks: Array | float = 0.0
    """Covariance of ln ‖g‖² with the mean of f'² over units in the layer above, in a stream that is activated first."""

    @property
    def fourth(self) -> Array:
        """E g_a² g_b² of a unit."""
        own = self.across.diagonal()
        return np.asarray(own[:, None] * own * (1 + self.excess) + 2 * self.pairs)


def _over(part: Array, whole: Array) -> float:
    """The ratio of two traces."""
    return float(part.trace()) / (float(whole.trace()) or 1e-300)


def mix(above: Gathered, below: Gathered, kept: Array, added: Array, n: int) -> Gathered:
    """What is gathered in the sum of what comes along the skip and what comes through the branch."""
    ratio = _over(added, kept)
    part = ratio / (1 + ratio)
    c = correlation(added)
    crossing = 4 * ratio / (1 + ratio) ** 2 / n * correlation(kept) * c
    drawn = 2 * c**2 / n
    terms = tuple(a + part**2 * (b - a) for a, b in zip(above.terms, below.terms, strict=True))
    more = crossing + part**2 * drawn
    branch = own_mean(below.terms[0] - above.terms[0]) + own_mean(drawn)
    bias = above.single_bias + part * (below.single_bias - above.single_bias + 0.5 * branch)
    bias -= 0.5 * (own_mean(terms[0] - above.terms[0]) + own_mean(more))
    return Gathered(bias, (terms[0] + more, terms[1], terms[2]), above.slope, above.offset, above.batch)


# The signal that comes back: second moments of δ, their overlaps, and their spread over draws.
#
# With g = dL/dx of a layer's output and δ = dL/dz = f'(z) g (divided by what the norm divides by):
#
#     no skip         E g g' = σw² (n_out/n_in) E δ δ'
#     x + α f(z)      g ← g + Wᵀ δ, δ = α f'(z) g          bulk factor 1 + α² σw² D
#
# **The aligned part.** δ is not independent of the weights: x' = f(W x) and Wᵀδ share W. Split g = (s/‖x'‖²) x' + g⊥
# with s = g·x'. Then Wᵀ v = x (z·v)/‖x‖² + W̃ᵀ v, with W̃ independent of all that came before, gives for x' = ς x + α
# f(z)
#
#     s  ← ρ s,      ρ = [ς² p + ς α m (M + E z f') + α² E z f' f]/p'     1 for homogeneous f without bias
#     G⊥ ← (ς² + α² σw² D) G⊥ + (s/n p')² R,   R = ς² α² (V − m² M²/p) + α² σw² E f'² (ς x + α f)²
#
# and the whole is G = G⊥ + s²/(n² p). Where the loss gradient points along the output (mean squared error without a
# head) this part is all there is; behind a head it is of order 1/n, but along a ReLU stream it grows faster than the
# bulk.


@dataclass(frozen=True)
class Delta:
    """δ = dL/dz of one layer."""

    second: Array
    """E δ_a δ_b over units, (S, S), with the batch's 1/B."""
    bias: float
    """E ln ‖δ‖² of the batch over draws − ln of its value at infinite width."""
    variance: float
    """Var ln ‖δ‖² of the batch over draws."""
    aligned: float
    """Share of ‖δ‖² that points along the signal."""

    @property
    def size(self) -> float:
        """Mean over samples of E δ²."""
        return float(self.second.trace()) / len(self.second)


def carry_back(network: Walk, top: Top, most: float = 1.0) -> dict[int, Delta]:
    """δ of every layer by its number; no further down than a layer where more than `most` of it is aligned."""
    deltas: dict[int, Delta] = {}
    samples = len(top.second)
    if network.head is not None:
        head = network.head
        source = top.source(0.0)
        deltas[head.layer.number] = Delta(top.second, source.bias, source.whole, 0.0)
        back = _through_head(head, top, bool(network.blocks and network.blocks[-1].layers[-1].layer.activates_first))
    else:
        across = _keep_positive(top.second - _along(top.aligned, network.top), top.second)
        back = Back(across, top.pairs, top.aligned, Gathered.start(samples, top.batch, 1.0))
    for block in reversed(network.blocks):
        back = _through_block(block, back, top, deltas)
        if deltas[block.layers[-1].layer.number].aligned > most:
            return deltas
    if network.stem is not None:
        deltas[network.stem.layer.number] = _at_function(network.stem, network.stem.out, back, top, 0.0, 1.0)[0]
    return deltas


def _along(aligned: Array, signal: Signal) -> Array:
    """E of the aligned part g∥_a g∥_b over units: s_a s_b P_ab/(n² p_a p_b)."""
    p = np.maximum(signal.second.diagonal(), 1e-300)
    return np.asarray(aligned * signal.second / p[:, None] / p / signal.width**2)


def _keep_positive(across: Array, whole: Array) -> Array:
    """What is left beside the aligned part; never below 0 on the diagonal."""
    out = across.copy()
    out[np.diag_indices(len(out))] = np.maximum(across.diagonal(), 1e-12 * whole.diagonal())
    return out


def _through_head(head: Passed, top: Top, is_delta: bool) -> Back:
    """g = Wᵀ δ: along the signal by s, and the rest fresh; `is_delta` if g is already δ of the layer below."""
    gain = head.weights.weight * head.layer.fan_out / head.layer.fan_in
    across = gain * (1 - 1 / head.layer.fan_in) * top.second
    pairs = _realize(gain**2 * top.pairs, across, head.layer.fan_in)
    start = Gathered.start(len(across), top.batch, float(np.mean(head.linear_part)))
    excess = head.weights.excess * top.peak
    if is_delta and not head.weights.keeps_delta:
        noise = (2 * relative(top.pairs, top.second.diagonal()) + excess) / head.layer.fan_in
        start = start.with_noise(-0.5 * own_mean(noise), noise, 0.0, 0.0)
    return Back(across, pairs, top.aligned, start, excess=excess, is_kept=head.weights.keeps_delta)


def _realize(pairs: Array, second: Array, n: int) -> Array:
    """E of the squared overlap of two vectors of n Gaussian numbers, from that of their covariance."""
    own = second.diagonal()
    return _bounded(pairs + ((own[:, None] * own) + pairs) / n, second)


def _bounded(pairs: Array, second: Array) -> Array:
    """As squared correlations: 1 of a sample with itself, at least that of the means, at most 1."""
    own = second.diagonal()
    scale = own[:, None] * own
    least = correlation(second) ** 2
    return np.asarray(np.clip(relative(pairs, own), least, 1.0) * (1 - np.eye(len(own))) * scale + np.diag(own**2))


def _through_block(block: PassedBlock, back: Back, top: Top, deltas: dict[int, Delta]) -> Back:
    last = block.layers[-1]
    if last.layer.activates_first:
        return _through_gaussian(block, back, top, deltas)
    keep = 0.0 if block.alpha is None else 1.0
    alpha = 1.0 if block.alpha is None else block.alpha
    delta, below = _at_function(last, block.out, back, top, keep, alpha)
    deltas[last.layer.number] = delta
    for passed in reversed(block.layers[:-1]):
        delta, below = _at_function(passed, passed.out, below, top, 0.0, 1.0)
        deltas[passed.layer.number] = delta
    return below if block.alpha is None else _join(block, back, below)


def _at_function(passed: Passed, out: Signal, back: Back, top: Top, keep: float, alpha: float) -> tuple[Delta, Back]:
    """(δ, dL/dx) of x' = keep · x + α f(norm(W x + b)), the skip's own path left out of the latter."""
    law, n, layer = passed.law, passed.layer.units, passed.layer
    normed = passed.is_normed
    p_out = np.maximum(out.second.diagonal(), 1e-300)
    m, p, part = passed.entry.mean, passed.entry.second.diagonal(), passed.linear_part
    second = alpha**2 * law.slope * back.across / (passed.scale[:, None] * passed.scale)
    inner, from_s = np.zeros_like(back.aligned), 0.0
    seen = keep * law.slope.diagonal() * p + 2 * keep * alpha * m * law.product1 + alpha**2 * law.product
    amplitude = back.aligned / p_out[:, None] / p_out / out.width**2
    slopes = np.maximum(law.slope.diagonal(), 1e-300)
    second = second * (1 - float(np.mean(seen / (p_out * slopes) - 1)) / n)  # g⊥ has no part along x'
    if normed:  # takes out of f' x' what points along z, and a layer norm the mean
        root = np.sqrt(np.maximum(passed.seen.diagonal(), 1e-300))
        lost = {
            1: (keep * m * law.orders[0] + alpha * 0.5 * law.square_orders[0]) / root,
            2: (keep * m * law.inner + alpha * law.inner2) / root,
        }
        left = seen - sum(lost[order] ** 2 for order in passed.taken)
        shape = np.sqrt(np.maximum(left, 0) / p_out) / passed.scale
        beside = law.inner_square / root**2 - lost[2] ** 2 / p_out
        second = second * (1 - float(np.mean(np.maximum(beside, 0) / slopes)) / n)  # nor has δ along z
        if 1 in passed.taken:  # n − 1 free units in the variance, and of f' g only what is left beside f in the mean
            second = second * (1 + float(np.mean(lost[1] ** 2 / (p_out * slopes))) / n)
    else:
        shape = np.sqrt(np.maximum(seen, 0) / p_out)
    bulk = float(second.trace())
    second = second + alpha**2 * amplitude * (shape[:, None] * shape) * out.second
    if not normed:  # a norm takes out what points along the signal
        turned = alpha * (keep * m * law.inner + alpha * law.inner2) / p_out * part
        inner = back.aligned * (turned[:, None] * turned)
        from_s = back.pure * float(inner.trace())
        fresh = np.maximum(law.inner_square - law.inner2**2 / np.maximum(law.second.diagonal(), 1e-300), 0)
        fresh = np.sqrt(fresh) * part
        inner = inner + alpha**2 * n * back.across * (fresh[:, None] * fresh)
    if passed.weights.bias > 0:  # leaves W x free at a given z
        loose = np.sqrt(np.maximum(passed.covariance.diagonal() * part * (1 - part), 0))
        inner = inner + n * second * (loose[:, None] * loose) * passed.entry.correlation
    whole = float(second.trace())
    share = 1 - bulk / whole if whole > 0 else 0.0
    seeded = (1 - share) * back.seeded + share * back.pure
    gathered = _gather(passed, back, keep, n)
    realized = passed.units if normed else passed.spread
    delta = _delta(second, gathered, top, seeded, share, realized.covariance)
    gain = passed.weights.weight * layer.fan_out / layer.fan_in
    scales = passed.scale[:, None] * passed.scale
    own = back.across.diagonal()
    chance = (law.slope2 * ((own[:, None] * own) + 2 * back.pairs) - law.slope**2 * back.pairs) / n
    through = alpha**4 * (law.slope**2 * back.pairs + chance) / scales**2
    across = gain * (1 - 1 / layer.fan_in) * second
    if passed.weights.keeps_delta:  # keeps ‖δ‖: what points along the signal is part of it
        across = _keep_positive(gain * second - _along(inner, passed.entry), second)
    pairs = _realize(gain**2 * _bounded(through, second), across, layer.fan_in)
    mean_part = float(np.mean(part))
    below = gathered.leaning(gathered.slope * mean_part, gathered.offset * mean_part)
    excess: Array | float = 0.0
    if passed.weights.excess:
        excess = passed.weights.excess * relative(law.slope2 * back.fourth, law.slope.diagonal() * own) / n
    pure = from_s / float(inner.trace()) if inner.trace() > 0 else 1.0
    return delta, Back(across, pairs, inner, below, seeded, pure, excess, passed.weights.keeps_delta)


def _delta(second: Array, gathered: Gathered, top: Top, seeded: float, share: float, size: Array) -> Delta:
    """δ of a layer whose signal's size spreads with this covariance."""
    source = top.source(seeded)
    spread = gathered.at(source.lean).plus(gathered.lean(source.lean) ** 2 * size)
    return Delta(second, gathered.at(source.lean).bias + source.bias, spread.variance + source.variance, share)


def _gather(passed: Passed, back: Back, keep: float, n: int) -> Gathered:
    """What is gathered of ‖δ‖² at a given size of z; its lean is d ln ‖δ‖²/d ln q."""
    law = passed.law
    noise = _noise(passed, back) / n
    above = back.gathered if keep == 0 else back.gathered.leaning(0.0, 0.0)  # a sum passes it on in `_join`
    mixed = less_orders(law.mixed, passed.taken, passed.c, law.square_orders, law.slope_orders)
    levels = law.second.diagonal()[:, None] * law.slope.diagonal()
    shared = np.where(levels > 0, mixed / np.maximum(levels, 1e-300), 0.0) / n
    bias = passed.kurtosis * law.fourths[1] - 0.5 * own_mean(noise)
    if passed.is_normed:  # divides by the realized size of z
        size = 0.0 * noise if passed.is_kept else 2 * passed.c**2 / n
        bias += 0.5 * own_mean(size) - passed.units.single_bias
        return above.with_noise(bias, noise + size, passed.noise, shared + shared.T).leaning(0.0, -1.0)
    own = passed.spread
    bias += law.slope_growth * own.single_bias + 0.5 * law.slope_growth2 * own.single
    after = above.with_noise(bias, noise, passed.noise, shared + shared.T)
    return after.leaning(law.growth * above.slope, law.slope_growth + law.growth * above.offset)


def _noise(passed: Passed, back: Back) -> Array:
    """Relative covariance over one unit of f'² g², g about Gaussian: 3 E f'⁴/D² − 1 of one sample."""
    law, c = passed.law, passed.c
    own, slopes = back.across.diagonal(), law.slope.diagonal()
    weight, level = (own[:, None] * own), (slopes[:, None] * slopes)
    orders = tuple(own * slope_order for slope_order in law.slope_orders)
    whole = less_orders(law.slope2 * back.fourth - level * weight, passed.taken, c, orders, orders)
    if back.is_kept:
        whole = whole - 2 * level * back.pairs
    return relative(whole, slopes * own)


def _join(block: PassedBlock, above: Back, below: Back) -> Back:
    """dL/dx of the block's input: along the skip and through the branch."""
    alpha, out, stream, last = block.alpha or 0.0, block.out, block.stream, block.layers[-1]
    law = last.law
    p_out, p = np.maximum(out.second.diagonal(), 1e-300), np.maximum(stream.second.diagonal(), 1e-300)
    m = stream.mean
    amplitude = above.aligned / p_out[:, None] / p_out / out.width**2
    turned = np.sqrt(np.maximum(law.second.diagonal() - m**2 * law.mean**2 / p, 0))
    freed = alpha**2 * amplitude * (turned[:, None] * turned) * correlation(law.second)
    kept = above.across + freed
    from_s = above.seeded * float(above.across.trace()) + above.pure * float(freed.trace())
    along = (p + alpha * m * law.mean) / p_out
    if block.layers[0] is last and not last.is_normed:
        along = along + (alpha * m * law.inner + alpha**2 * law.inner2) * last.linear_part / p_out
    aligned = above.aligned * (along[:, None] * along)
    n = block.layers[0].layer.fan_in
    if block.projection is not None:
        kept, aligned = block.projection * out.width / n * kept, np.zeros_like(aligned)
        from_s *= block.projection * out.width / n
    added = _over(below.across, kept)
    part, zero = added / (1 + added), np.zeros_like(kept)
    gathered = mix(above.gathered, below.gathered, kept, below.across, n).with_noise(0.0, zero, block.noise, 0.0)
    gathered = gathered.leaning(
        block.gain * above.gathered.slope + part * below.gathered.slope,
        block.gain * above.gathered.offset + part * below.gathered.offset,
    )
    whole = kept + below.across
    pairs = _bounded(_over(kept, above.across) ** 2 * above.pairs + below.pairs, whole)
    excess = (1 - part) ** 2 * above.excess + part**2 * below.excess
    seeded = (from_s + below.seeded * float(below.across.trace())) / (float(whole.trace()) or 1e-300)
    return Back(whole, pairs, aligned, gathered, seeded, above.pure, excess)


def _through_gaussian(block: PassedBlock, back: Back, top: Top, deltas: dict[int, Delta]) -> Back:
    """x + W f(norm(x)) + b, layer by layer: δ of a layer is dL/d of what its matrix gives."""
    along = _along(back.aligned, block.out)
    second, pairs, gathered = back.across + along, back.pairs, back.gathered
    share = float(along.trace()) / max(float(second.trace()), 1e-300)
    seeded = (1 - share) * back.seeded + share * back.pure
    for passed in reversed(block.layers):
        layer = passed.layer
        deltas[layer.number] = _delta(second, gathered, top, seeded, share, block.out.spread.covariance)
        gain = passed.weights.weight * layer.fan_out / layer.fan_in
        through = gain * second
        excess = passed.weights.excess * (1 + 2 * correlation(second) ** 2) / layer.fan_out
        pairs = _realize(gain**2 * pairs, through, layer.fan_in)
        arriving = Back(through, pairs, back.aligned, gathered, excess=excess, is_kept=passed.weights.keeps_delta)
        noise, masks = _noise(passed, arriving) / layer.units, _masks(passed) / layer.units
        scales = passed.scale[:, None] * passed.scale
        bias = passed.kurtosis * passed.law.fourths[1] - 0.5 * own_mean(noise)
        if passed.is_normed:
            bias -= passed.units.single_bias
        second = through * passed.law.slope / scales
        gathered = gathered.with_noise(bias, noise, 0.0, 0.0)
        pairs = _bounded(pairs * (passed.law.slope / scales) ** 2, second)
    kept = back.across
    p_out, p = np.maximum(block.out.second.diagonal(), 1e-300), np.maximum(block.stream.second.diagonal(), 1e-300)
    last = block.layers[-1]
    inner = np.zeros_like(p) if last.is_normed else last.law.inner2 * last.weights.weight
    turned = (p + inner) / p_out
    n = block.layers[0].layer.fan_in
    aligned = back.aligned * (turned[:, None] * turned)
    if block.projection is not None:
        kept, aligned = block.projection * block.out.width / n * kept, np.zeros_like(aligned)
    own = mix(back.gathered, gathered, kept, second, n).with_noise(0.0, np.zeros_like(kept), block.noise, 0.0)
    first, part = block.layers[0], _over(second, kept + second)
    slopes, orders = first.law.slope.diagonal(), [float(np.mean(own**2)) for own in first.law.slope_orders]
    stays = persistence(
        first.law.slope2.diagonal() - slopes**2, orders, first.taken, sqrt(block.stream.p / block.out.p)
    )
    before = stays * (np.zeros_like(kept) + back.masks)
    own = own.with_noise(-part * own_mean(before), 2 * part * before, 0.0, 0.0)
    branch = -1.0 if first.is_normed else first.law.slope_growth
    own = own.leaning(block.gain * back.gathered.slope, block.gain * back.gathered.offset + part * branch)
    whole = kept + second
    from_s = back.seeded * float(kept.trace()) + seeded * float(second.trace())
    seeded = from_s / (float(whole.trace()) or 1e-300)
    return Back(
        whole, _bounded(back.pairs + pairs, whole), aligned, own, seeded, back.pure, masks=before + part * masks
    )


def _masks(passed: Passed) -> Array:
    """Relative covariance over one unit of f'² alone."""
    law, slopes = passed.law, passed.law.slope.diagonal()
    whole = law.slope2 - slopes[:, None] * slopes
    return relative(less_orders(whole, passed.taken, passed.c, law.slope_orders, law.slope_orders), slopes)

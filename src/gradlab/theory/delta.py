"""What comes back through a layer: dL/dx with its spread, and where it stems from.

**Two sources.** With s = δ·z at the top, ‖δ‖² below it has a part that stems from ‖δ_top‖² and a part that stems from
s²: each layer turns s²/‖x‖² of the aligned part into fresh bulk (`delta.py`). Both fluctuate over seeds, s² far more.
With the share h of the second part, ln ‖δ‖² fluctuates as ln((1 − h) B + h S) of the two numbers at the top, which are
drawn.

**The lean.** ‖δ_top‖² depends on the realized size p of the signal, ln ‖δ‖² = λ ln p + …, and so does every δ below:
ln ‖g_l‖² = (A λ + C) ln p_l + …. λ depends on h, so the covariance is kept as a polynomial in it, K0 + λ K1 + λ² K2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.theory.laws import correlation
from gradlab.theory.signal import Passed, PassedBlock, Signal, Spread, Walk, own_mean, persistence, relative
from gradlab.theory.top import Top

Array = NDArray[Any]
Terms = tuple[Array, Array, Array]


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


def mix(above: Gathered, below: Gathered, kept: Array, added: Array, n: int) -> Gathered:
    """What is gathered in the sum of what comes along the skip and what comes through the branch."""
    ratio = float(added.trace()) / (float(kept.trace()) or 1e-300)
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


def carry_back(found: Walk, top: Top, most: float = 1.0) -> dict[int, Delta]:
    """δ of every layer by its number; no further down than a layer where more than `most` of it is aligned."""
    deltas: dict[int, Delta] = {}
    samples = len(top.second)
    if found.head is not None:
        head = found.head
        source = top.source(0.0)
        deltas[head.layer.number] = Delta(top.second, source.bias, source.whole, 0.0)
        back = _through_head(head, top, bool(found.blocks and found.blocks[-1].layers[-1].layer.activates_first))
    else:
        across = _keep_positive(top.second - _along(top.aligned, found.top), top.second)
        back = Back(across, top.pairs, top.aligned, Gathered.start(samples, top.batch, 1.0))
    for block in reversed(found.blocks):
        back = _through_block(block, back, top, deltas)
        if deltas[block.layers[-1].layer.number].aligned > most:
            return deltas
    if found.stem is not None:
        deltas[found.stem.layer.number] = _at_function(found.stem, found.stem.out, back, top, 0.0, 1.0)[0]
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
    bulk = float(second.trace())
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
        bulk = float(second.trace())
        second = second + alpha**2 * amplitude * (shape[:, None] * shape) * out.second
    if not normed:  # a norm takes out what points along the signal
        shape = np.sqrt(np.maximum(seen, 0) / p_out)
        bulk = float(second.trace())
        second = second + alpha**2 * amplitude * (shape[:, None] * shape) * out.second
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
    mixed, c = law.mixed, passed.c
    for order in passed.taken:
        mixed = mixed - law.square_orders[order - 1][:, None] * law.slope_orders[order - 1] * c**order
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
    whole = law.slope2 * back.fourth - level * weight
    for order in passed.taken:
        whole = whole - law.slope_orders[order - 1][:, None] * law.slope_orders[order - 1] * c**order * weight
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
    added = float(below.across.trace()) / (float(kept.trace()) or 1e-300)
    part, zero = added / (1 + added), np.zeros_like(kept)
    gathered = mix(above.gathered, below.gathered, kept, below.across, n).with_noise(0.0, zero, block.noise, 0.0)
    gathered = gathered.leaning(
        block.gain * above.gathered.slope + part * below.gathered.slope,
        block.gain * above.gathered.offset + part * below.gathered.offset,
    )
    whole = kept + below.across
    grown = (float(kept.trace()) / (float(above.across.trace()) or 1e-300)) ** 2
    pairs = _bounded(grown * above.pairs + below.pairs, whole)
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
    first, part = block.layers[0], float(second.trace()) / (float((kept + second).trace()) or 1e-300)
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
    law, c = passed.law, passed.c
    slopes = law.slope.diagonal()
    whole = law.slope2 - slopes[:, None] * slopes
    for order in passed.taken:
        whole = whole - law.slope_orders[order - 1][:, None] * law.slope_orders[order - 1] * c**order
    return relative(whole, slopes)

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.theory.laws import correlation
from gradlab.theory.spreads import Spread, own_mean

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

"""Phases of a network: whether δ vanishes or explodes with depth, how deep a signal reaches, what would be critical.

Without a skip, q ↦ σw² V(q) + σb² has a fixed point q*, and χ = σw² D(q*) multiplies E δ² per layer: ordered below 1,
chaotic above. Two inputs approach the correlation c* with the depth scale ξ_c = −1/ln(σw² E f'f' at c*), and networks
train up to a depth of about 6 ξ_c (Schoenholz et al. 2017). Behind layer or RMS norm χ = σw² D(1)/(σw² V(1) + σb²);
behind batch norm, for large batches, χ = D(1)/(V(1) − M(1)²) ≥ 1, 1 only for a linear f.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, log, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradlab.theory.laws import ORDERS, Elementwise, expectation, hermite, nodes

Array = NDArray[Any]
Word = Literal["ordered", "critical", "chaotic", "grows", "constant"]
TOLERANCE = 0.02
"""A χ this close to 1 is critical."""
LEFT = 1e-4
"""A gradient has not reached a layer where less than this share of it is left."""
TRAINABLE = 6.0
"""Depth scales over which networks train (Schoenholz et al. 2017)."""


@dataclass(frozen=True)
class Phase:
    """How sizes change with depth."""

    word: Word
    chi: float
    """Factor of E δ² per hidden layer, from the output to the input."""
    fixed_point: float | None = None
    """q*, the variance that the pre-activations approach."""
    overlap: float | None = None
    """c*, the correlation that two inputs approach."""
    depth_scale: float | None = None
    """ξ_c, layers; inf if it is critical."""
    gradient_scale: float | None = None
    """ξ_∇ = 1/|ln χ|, layers."""
    critical_weight: float | None = None
    """σw² at which χ would be 1, at the same σb²."""
    weight: float = 1.0
    """σw² of the hidden layers."""
    bias: float = 0.0
    """σb²."""
    first: int = 1
    """The first hidden layer that the sizes are compared over."""
    last: int = 1
    depth: int = 1

    @property
    def trainable_depth(self) -> float | None:
        """6 ξ; None where the theory gives none."""
        return None if self.depth_scale is None else TRAINABLE * self.depth_scale

    @property
    def critical_scale(self) -> float | None:
        """What the init's scale would have to be multiplied by."""
        if self.critical_weight is None or self.weight <= 0:
            return None
        return sqrt(self.critical_weight / self.weight)

    @property
    def reach(self) -> float | None:
        """Layers through which at least 10⁻⁴ of δ is left; None if it does not fall."""
        return log(1 / LEFT) / (-0.5 * log(self.chi)) if 0 < self.chi < 1 - TOLERANCE else None


def moments_at(function: Elementwise, q: float) -> tuple[float, float, float]:
    """(M, V, D) at variance q."""
    x = sqrt(max(q, 0.0)) * nodes()[0]
    f, s = function.value(x), function.slope(x)
    return float(expectation(f)), float(expectation(f * f)), float(expectation(s * s))


def pair_slope(function: Elementwise, q: float, c: float) -> float:
    """E f'(u) f'(v) at variance q and correlation c."""
    return float(_coefficients(function.slope, q) ** 2 @ c ** np.arange(ORDERS))


def pair_second(function: Elementwise, q: float, c: float) -> float:
    """E f(u) f(v)."""
    return float(_coefficients(function.value, q) ** 2 @ c ** np.arange(ORDERS))


def _coefficients(values: Callable[[Array], Array], q: float) -> Array:
    """Hermite coefficients at variance q."""
    return np.asarray(values(sqrt(q) * nodes()[0]) @ hermite())


def fixed_variance(function: Elementwise, weight: float, bias: float) -> float | None:
    """q* with q = σw² V(q) + σb²; None if the variance grows without end or vanishes."""
    q = 1.0
    for _ in range(2000):
        after = weight * moments_at(function, q)[1] + bias
        if not 1e-12 < after < 1e8:
            return None
        if abs(after - q) <= 1e-12 * after:
            return after
        q = after
    return q if abs(weight * moments_at(function, q)[1] + bias - q) < 1e-4 * q else None


def fixed_overlap(function: Elementwise, weight: float, bias: float, q: float) -> float:
    """c*, from two nearly orthogonal inputs on; 1 in the ordered phase."""
    if weight * moments_at(function, q)[2] <= 1:
        return 1.0
    c = 0.1
    for _ in range(400):
        after = (weight * pair_second(function, q, c) + bias) / q
        if abs(after - c) < 1e-9:
            break
        c = min(max(after, -1.0), 1.0)
    return c


def critical_weight(function: Elementwise, bias: float) -> float | None:
    """σw² with χ = 1 at this σb²; None if there is none.

    On the critical line σw² = 1/D(q) and σb² = q − σw² V(q): the q that gives this σb² is searched for.
    """
    if function.negative_slope is not None:
        return 1 / moments_at(function, 1.0)[2]

    def excess(q: float) -> float:
        _, v, d = moments_at(function, q)
        return q - v / d - bias if d > 0 else inf

    grid = np.geomspace(1e-8, 1e3, 67)
    values = [excess(q) for q in grid.tolist()]
    if bias == 0 and abs(moments_at(function, 1e-8)[0]) < 1e-3:
        return 1 / moments_at(function, 1e-8)[2]  # an odd f is critical at q* = 0
    for (low, left), (high, right) in pairwise(zip(grid.tolist(), values, strict=True)):
        if left < 0 <= right:
            for _ in range(60):
                middle = sqrt(low * high)
                low, high = (middle, high) if excess(middle) < 0 else (low, middle)
            return 1 / moments_at(function, sqrt(low * high))[2]
    return None


def plain_phase(function: Elementwise, weight: float, bias: float, norm: str, first: int, last: int) -> Phase:
    """The phase of a network without a skip."""
    q = overlap = critical = along = None
    if norm in ("layer", "rms", "batch"):
        q, (m, v, d) = 1.0, moments_at(function, 1.0)
        chi = d / (v - m * m) if norm == "batch" else weight * d / (weight * v + bias)
    else:
        critical = critical_weight(function, bias)
        if function.negative_slope is not None:
            overlap = 1.0
            along = chi = weight * moments_at(function, 1.0)[2]
        elif (q := fixed_variance(function, weight, bias)) is None:
            along = chi = weight * moments_at(function, 1e-8)[2]
        else:
            chi = weight * moments_at(function, q)[2]
            overlap = fixed_overlap(function, weight, bias, q)
            along = chi if overlap == 1.0 else weight * pair_slope(function, q, overlap)
    reach = None if along is None else _scale(along)
    return Phase(_word(chi), chi, q, overlap, reach, _scale(chi), critical, weight, bias, first, last, last)


def skip_phase(per_layer: float | None, weight: float, bias: float, first: int, last: int) -> Phase:
    """The phase of a network with a skip, from the predicted factor of E δ² per layer."""
    chi = 1.0 if per_layer is None else per_layer
    word: Word = "constant" if abs(log(max(chi, 1e-300))) < TOLERANCE else "grows" if chi > 1 else "ordered"
    return Phase(word, chi, None, None, None, _scale(chi), None, weight, bias, first, last, last)


def _word(chi: float) -> Word:
    if abs(chi - 1) <= TOLERANCE:
        return "critical"
    return "ordered" if chi < 1 else "chaotic"


def _scale(factor: float) -> float:
    """−1/ln of a factor per layer, as a length; inf at 1."""
    if factor <= 0:
        return 0.0
    size = abs(log(factor))
    return inf if size < 1e-9 else 1 / size


def safe_alpha(weight: float, slope: float, depth: int) -> float:
    """α at which δ grows by no more than about √e over a stream of this depth: (1 + α² σw² D)^L ≤ e."""
    gain = weight * slope
    return 1.0 if gain <= 0 else min(1.0, sqrt((exp(1 / max(depth, 1)) - 1) / gain))

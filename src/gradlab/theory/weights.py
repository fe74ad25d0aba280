"""How large the initial weights and biases of a layer are: σw² = n_in Var W and σb² = Var b.

Both are computed from the init's inverse CDF, so an init of the user's own needs no entry here. An init whose entries
are not independent is drawn a few times and measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.inits.base import Init
from gradlab.network.inits.orthogonal import Orthogonal
from gradlab.network.mlp import MLP, Layer
from gradlab.spec.base import scale_value
from gradlab.spec.choice import InitChoice
from gradlab.streams import Streams

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
    keeps_signal: bool = False
    """Whether ‖W x‖ is ‖x‖ up to a factor: an orthogonal matrix that does not narrow."""
    keeps_delta: bool = False
    """Whether ‖Wᵀ δ‖ is ‖δ‖ up to a factor: an orthogonal matrix that does not widen."""


def weights_of(layer: Layer, mlp: MLP, choice: InitChoice, init: Init) -> Weights:
    """The distribution of a layer's matrix and bias."""
    scaled = choice.scale_on == "all" or layer.in_block
    scale = scale_value(choice.scale, mlp.depth) if scaled else 1.0
    mean, variance, excess = _entry(init, layer.fan_in, layer.fan_out)
    has_bias = choice.bias == "same" and any(
        slot.role == "bias" and slot.group == "layer" and slot.owner == layer.number for slot in mlp.layout.slots
    )
    centered = abs(mean) <= 1e-9 * max(variance, 1e-300) ** 0.5
    return Weights(
        layer.fan_in * variance * scale**2,
        variance if has_bias else 0.0,
        is_centered=centered,
        excess=excess,
        keeps_signal=isinstance(init, Orthogonal) and layer.fan_in <= layer.fan_out,
        keeps_delta=isinstance(init, Orthogonal) and layer.fan_in >= layer.fan_out,
    )


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

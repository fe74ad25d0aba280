"""The end of the network: what the loss sees before training, and the δ that it sends back.

In the limit of many units the outputs of S samples are Gaussian with a known covariance. So they are drawn, and the
loss itself (any loss) says what it makes of them: the expected initial loss, E δ_a δ_b over the outputs, and how both
spread over seeds. Few outputs spread most: with one output δ is proportional to one Gaussian number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.losses import Loss
from gradlab.theory.inputs import Inputs
from gradlab.theory.signal import Walk, function_of

Array = NDArray[Any]
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
    def _known(self) -> dict[int, Source]:
        return {}

    def _at(self, place: int) -> Source:
        if place not in self._known:
            self._known[place] = self._fluctuate(place / GRID)
        return self._known[place]

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


def draw_top(found: Walk, loss: Loss, inputs: Inputs) -> Top:
    """Draw outputs, and let the loss answer: once at infinite width, once with the signal's own spread."""
    samples, batch = len(inputs.x), inputs.batch
    head = found.head
    last = found.blocks[-1] if found.blocks else None
    own = (
        head.units if head is not None else last.layers[-1].spread if last and last.alpha is None else found.top.spread
    )
    width = found.top.width if head is None else head.layer.fan_out
    draws = DRAWS if samples * width > 200 else 4 * DRAWS
    make, generator = _maker(found, inputs, width), np.random.default_rng(20_180_101)
    normal = generator.standard_normal((draws, samples + 1, width))
    normal = np.concatenate([normal, -normal])  # δ and −δ: outputs whose mean over draws is exactly 0
    shifts = generator.standard_normal(2 * draws)
    shifts = (shifts - shifts.mean()) / shifts.std() * np.sqrt(max(own.variance, 0.0))
    y = np.concatenate([inputs.y] * (2 * draws))

    def answer(moved: Array) -> tuple[Array, Array, Array]:
        """(outputs, δ, s²/p) of all draws."""
        z, linear = make(normal, np.exp(0.5 * moved)[:, None, None])
        output, slope = _activate(found, z)
        _, gradient = loss.value_and_gradient(output.reshape(-1, width), y)
        delta = np.asarray(gradient, np.float64).reshape(z.shape) * (2 * draws * samples / batch) * slope
        return output, delta, np.sum(delta * linear, 2)

    _, delta, along = answer(np.zeros(2 * draws))
    overlaps, squares = delta @ delta.transpose(0, 2, 1) / width, delta**2
    sizes = squares.sum(2)
    scale = np.maximum(sizes[:, :, None] * sizes[:, None, :], 1e-300)
    peak = np.mean(squares @ squares.transpose(0, 2, 1) / scale, 0)
    p = np.maximum(found.top.second.diagonal(), 1e-300)
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


def _maker(found: Walk, inputs: Inputs, width: int) -> Maker:
    """A function that makes (what enters the output's function, its part that is linear in the last signal).

    Of normal numbers, (draws, S + 1, width), and of how much larger the signal is in every draw, (draws, 1, 1).
    """
    samples = len(inputs.x)
    if found.head is not None:
        head = found.head
        root = _root(head.weights.weight * head.entry.second)
        offset = np.sqrt(head.weights.bias)

        def make(normal: Array, size: Array) -> tuple[Array, Array]:
            linear = size * (root @ normal[:, :samples])
            return linear + offset * normal[:, samples:], linear

        return make
    last = found.blocks[-1] if found.blocks else None
    if last is not None and last.alpha is None:  # f(z) with a Gaussian z
        layer = last.layers[-1]
        root = _root(layer.seen)
        function = function_of(layer.layer)

        def make_plain(normal: Array, size: Array) -> tuple[Array, Array]:
            x = size * function.value(root @ normal[:, :samples])
            return x, x

        return make_plain
    top = found.top
    carried = inputs.x if top.carries_input else np.zeros((samples, width))
    own_mean = top.mean - carried.mean(1)
    across = np.outer(carried.mean(1), own_mean)
    rest = top.second - carried @ carried.T / width - across - across.T - np.outer(own_mean, own_mean)
    root = _root(rest)

    def make_stream(normal: Array, size: Array) -> tuple[Array, Array]:
        x = carried + size * (own_mean[:, None] + root @ normal[:, :samples])
        return x, x

    return make_stream


def _activate(found: Walk, z: Array) -> tuple[Array, Array]:
    """(output, slope); only a head has a function of its own left."""
    if found.head is None:
        return z, np.ones_like(z)
    activation = found.head.layer.activation
    output = activation.forward(z)
    return output, activation.slope(z, output)


def _root(matrix: Array) -> Array:
    """R with R Rᵀ = matrix, whatever its rank."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))

"""The end of the network: what the loss sees before training, and the δ that it sends back.

In the limit of many units the outputs of S samples are Gaussian with a known covariance. So they are drawn, and the
loss itself (any loss) says what it makes of them: the expected initial loss, E δ_a δ_b over the outputs, and how both
spread over seeds. Few outputs spread most: with one output δ is proportional to one Gaussian number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.losses.base import Loss
from gradlab.theory.inputs import Inputs
from gradlab.theory.signal import Spread, function_of
from gradlab.theory.walk import Walk

Array = NDArray[Any]
DRAWS = 64


@dataclass(frozen=True)
class Top:
    """dL/dz of the head, or dL/dx of the last stream where there is no head."""

    second: Array
    """E δ_a δ_b over outputs, (S, S), with the batch's 1/B."""
    pairs: Array
    """E (δ_a · δ_b/k)²: few outputs overlap by chance, (S, S)."""
    aligned: Array
    """E s_a s_b with s_a = δ_a · (z_a − b): how far δ points along the signal, (S, S)."""
    spread: Spread
    """Of ‖δ‖² over the batch; its variance is what is left at a given size of the outputs."""
    lean: float
    """d ln ‖δ‖²/d ln of the outputs' second moment."""
    moved: float
    """Variance of the logarithm of that second moment."""
    losses: Array
    """The initial loss in every draw."""
    output_scale: float
    """Root mean square of the outputs."""


def draw_top(found: Walk, loss: Loss, inputs: Inputs) -> Top:
    """Draw outputs, and let the loss answer: once at infinite width, once with the signal's own spread."""
    samples, batch = len(inputs.x), inputs.batch
    head = found.head
    last = found.blocks[-1] if found.blocks else None
    own = (
        head.units if head is not None else last.layers[-1].spread if last and last.alpha is None else found.top.spread
    )
    width = found.top.width if head is None else head.layer.fan_out
    make = _maker(found, inputs, width)
    draws = DRAWS if samples * width > 200 else 4 * DRAWS
    second, pairs, aligned = (np.zeros((samples, samples)) for _ in range(3))
    rows, generator = min(batch, samples), np.random.default_rng(20_180_101)
    sizes, singles, losses, shifts, scales = [], [], [], [], []
    for _ in range(draws):
        shift = float(generator.standard_normal())
        state = generator.bit_generator.state
        for e in (0.0, own.bias + np.sqrt(max(own.variance, 0.0)) * shift):
            generator.bit_generator.state = state  # the same draw, smaller or larger
            z, linear = make(generator, e)
            output, slope = _activate(found, z)
            _, gradient = loss.value_and_gradient(output, inputs.y)
            delta = np.asarray(gradient, np.float64) * (samples / batch) * slope
            if e == 0.0:
                along = np.sum(delta * linear, 1)
                overlaps = delta @ delta.T / width
                second += overlaps
                pairs += overlaps**2
                aligned += np.outer(along, along)
        chosen = np.arange(samples) if rows == samples else generator.choice(samples, rows, replace=False)
        singles.append(np.sum(delta**2, 1))
        sizes.append(float(np.sum(delta[chosen] ** 2)) / len(chosen))
        losses.append(loss.value(output[chosen], inputs.y[chosen]))
        scales.append(float(np.mean(output**2)))
        shifts.append(shift * np.sqrt(max(own.variance, 0.0)))
    logs = np.log(np.maximum(sizes, 1e-300))
    second, pairs, aligned = second / draws, pairs / draws, aligned / draws
    limit = float(np.trace(second)) / samples * width
    moved = float(np.var(shifts))
    lean = float(np.cov(shifts, logs, ddof=0)[0, 1] / moved) if moved > 1e-12 else 0.0
    bias = float(logs.mean() - np.log(max(limit, 1e-300)))
    each = np.array(singles) / np.maximum(np.mean(singles, 0), 1e-300)
    relative = _keep_batch_spread(np.atleast_2d(np.cov(each.T)), np.mean(singles, 0))
    covariance = np.log1p(np.maximum(relative, -0.9)) - lean**2 * moved
    whole = Spread(0.0, covariance + lean**2 * moved, batch)
    spread = Spread(bias - whole.bias, covariance, batch)
    said = np.asarray(losses)
    return Top(second, pairs, aligned, spread, lean, own.variance, said, float(np.mean(scales)) ** 0.5)


def _keep_batch_spread(relative: Array, sizes: Array) -> Array:
    """The covariance of the samples' relative sizes, so that a batch of other samples spreads as well.

    Samples that share nothing have a covariance of 0 on average; below 0 it is noise of the draws, with which a large
    batch would seem not to spread at all. How much samples differ from each other is part of the spread over batches.
    """
    size = len(relative)
    out = relative.copy()
    if size > 1:
        other = (float(relative.sum()) - float(relative.trace())) / (size * (size - 1))
        out -= min(other, 0.0)
        out.flat[:: size + 1] = relative.diagonal() + float(np.var(sizes)) / max(float(np.mean(sizes)), 1e-150) ** 2
    return np.asarray(out)


def _maker(found: Walk, inputs: Inputs, width: int) -> Any:
    """A function that draws (what enters the output's function, its part that is linear in the last signal)."""
    samples = len(inputs.x)
    if found.head is not None:
        head = found.head
        root = _root(head.weights.weight * head.entry.second)
        offset = np.sqrt(head.weights.bias)

        def draw(generator: np.random.Generator, shift: float) -> tuple[Array, Array]:
            linear = np.exp(0.5 * shift) * (root @ generator.standard_normal((samples, width)))
            return linear + offset * generator.standard_normal(width), linear

        return draw
    last = found.blocks[-1] if found.blocks else None
    if last is not None and last.alpha is None:  # f(z) with a Gaussian z
        layer = last.layers[-1]
        root = _root(layer.seen)
        function = function_of(layer.layer)

        def draw_plain(generator: np.random.Generator, shift: float) -> tuple[Array, Array]:
            x = np.exp(0.5 * shift) * function.value(root @ generator.standard_normal((samples, width)))
            return x, x

        return draw_plain
    top = found.top
    carried = inputs.x if top.carries_input else np.zeros((samples, width))
    own_mean = top.mean - carried.mean(1)
    across = np.outer(carried.mean(1), own_mean)
    rest = top.second - carried @ carried.T / width - across - across.T - np.outer(own_mean, own_mean)
    root = _root(rest)

    def draw_stream(generator: np.random.Generator, shift: float) -> tuple[Array, Array]:
        moved = own_mean[:, None] + root @ generator.standard_normal((samples, width))
        x = carried + np.exp(0.5 * shift) * moved
        return x, x

    return draw_stream


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

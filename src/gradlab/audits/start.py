"""A network before the first step: the size of its output, and how signal and δ change from layer to layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from gradlab.facts import Gain
from gradlab.network.activations import Activation
from gradlab.optim.optimizers import clip_gradient
from gradlab.optim.rule import UpdateRule
from gradlab.probes import rms
from gradlab.trials.seeding import seeded
from gradlab.trials.setup import Setup

ENOUGH = 100_000
"""Parameters that tell how far an update moves a network."""


@dataclass(frozen=True)
class Start:
    """A network at initialization, on the probe batch."""

    output: float
    """Root mean square of the output."""
    loss: float
    signal: Gain | None
    """Of the hidden layers' activations, forwards."""
    delta: Gain | None
    """Of δ = dL/dz, backwards: from the last hidden layer to the first."""
    predicted: float | None
    """√(fan_in σ² E f(z)²/E z²), the gain that weights of this size give a plain block; None with a norm."""
    floor: float
    """The least loss that outputs of this network's range can reach on the training targets."""
    outputs: tuple[float, float]
    """The range of its outputs."""
    moved: float | None = None
    """How far all updates together would move the parameters if each were like the first, relative to their size;
    None if nothing is trained."""


def start_of(setup: Setup) -> Start:
    """Run one forward and one backward pass of the network before training."""
    mlp = setup.mlp
    theta = setup.theta.astype(np.float64)
    x, y = setup.probe_x.astype(np.float64), setup.dataset.typed(setup.probe_y, np.float64)
    p = mlp.layout.windows(theta)
    with np.errstate(all="ignore"):
        output, tape = mlp.forward(p, x, mlp.initial_running(np.float64))
        loss, d_output = setup.loss.value_and_gradient(output, y)
        gradient = np.zeros_like(theta)
        mlp.backward(p, tape, d_output, mlp.layout.windows(gradient))
    hidden = tape.records if mlp.head is None else tape.records[:-1]
    sizes = [rms(record.post if record.stream is None else record.stream) for record in hidden]
    deltas = [rms(record.delta) for record in hidden if record.delta is not None]
    low, high = output_range(setup)
    return Start(
        rms(output), float(loss), gain_of(sizes), gain_of(deltas[::-1]), _predicted(setup), _floor(setup, low, high),
        (low, high), _moved(setup, theta, gradient),
    )  # fmt: skip


def _moved(setup: Setup, theta: NDArray[Any], gradient: NDArray[Any]) -> float | None:
    size, largest = rms(theta), float(setup.rates.max(initial=0))
    if not size or not largest or not np.isfinite(gradient).all():
        return None
    optimizer, some = setup.optimizer, slice(None, None, 1 + theta.size // ENOUGH)
    if isinstance(optimizer, UpdateRule):  # it knows its tensors by their places
        some = slice(None)
    with np.errstate(all="ignore"), seeded(setup.trial.seed):  # a user's part may draw numbers itself
        clipped = clip_gradient(gradient, setup.trial.config.train.clip)[some].copy()
        update = rms(optimizer.update(clipped, optimizer.init(theta[some]), theta[some].copy(), largest)[0])
    return update * float(setup.rates.sum()) / largest / size


def output_range(setup: Setup) -> tuple[float, float]:
    """The range of the output: that of the last activation, unless a skip comes after it."""
    mlp = setup.mlp
    inside = mlp.skip.place == "inside" or mlp.skip.name == "none"
    if mlp.head is not None:
        return activation_range(mlp.head.activation)
    if not mlp.blocks or not inside:
        return -np.inf, np.inf
    return activation_range(mlp.layers[-1].activation)


def activation_range(activation: Activation) -> tuple[float, float]:
    """Infimum and supremum of f; infinite if f still grows at |x| = 10⁶."""
    x = np.concatenate([-np.logspace(6, -3, 2000), [0.0], np.logspace(-3, 6, 2000)])
    with np.errstate(all="ignore"):
        y = np.asarray(activation.forward(x), np.float64)
    low, high = float(np.nanmin(y)), float(np.nanmax(y))
    return -np.inf if low < -1e3 else low, np.inf if high > 1e3 else high


def _floor(setup: Setup, low: float, high: float) -> float:
    """The loss of the best outputs in range: each target itself, or the end of the range next to it."""
    if setup.dataset.classes is not None or not (np.isfinite(low) or np.isfinite(high)):
        return 0.0
    targets = setup.dataset.typed(setup.dataset.targets[setup.dataset.train], np.float64)
    return float(setup.loss.value(np.clip(targets, low, high), targets)) if setup.loss.for_training else 0.0


def _predicted(setup: Setup) -> float | None:
    layers = [layer for block in setup.mlp.blocks for layer in block]
    if not layers or any(layer.norm.name != "none" for layer in layers):
        return None
    windows = setup.mlp.layout.windows(setup.theta).layers
    weights = [windows[layer.number - 1].weight for layer in layers]
    spread = [w.shape[0] * np.mean(w.astype(np.float64) ** 2) for w in weights]
    return float(np.sqrt(np.mean(spread) * _kept(layers[0].activation)))


def _kept(activation: Activation) -> float:
    """E f(z)² for z ~ N(0, 1): the share of the mean square that the activation lets through."""
    z, w = hermegauss(99)
    return float(w @ np.asarray(activation.forward(z), np.float64) ** 2 / w.sum())


def gain_of(sizes: Sequence[float] | NDArray[Any]) -> Gain | None:
    """From the first of some sizes to the last; None for fewer than three, or where the first is 0 or no number."""
    if len(sizes) < 3 or not sizes[0] > 0 or not np.isfinite(sizes[0]):
        return None
    there = list(takewhile(lambda size: 0 < size < np.inf, map(float, sizes)))
    steps, last = len(there) - 1, float(sizes[-1])
    in_all = last / there[0] if np.isfinite(last) else np.inf
    if steps == 0:  # at once: to 0, or beyond all numbers
        return Gain(0.0 if sizes[1] == 0 else np.inf, in_all, len(sizes) - 1)
    return Gain(float(np.exp((np.log(there[-1]) - np.log(there[0])) / steps)), in_all, len(sizes) - 1)

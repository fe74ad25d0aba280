"""The layer view: signal, δ, weight gradient and dead units of every layer, by the lab's own probes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gradlab.trials.measuring import measure
from gradlab.trials.setup import Setup
from gradlab.web.pair import ArmState

PROBES = ("activations", "backprop_signal", "weight_gradient", "dead_units")
ROWS = ("signal", "delta", "gradient", "dead")
"""Root mean square of the activations (of the residual stream, where there is one), of δ = dL/dz and of dL/dW; the
share of units whose slope is 0 on the whole probe batch."""


@dataclass(frozen=True)
class Layers:
    """One number per layer and row, in forward order."""

    signal: list[float]
    delta: list[float]
    gradient: list[float]
    dead: list[float]


def narrow_probes(setup: Setup) -> Setup:
    """The set-up with only the probes that the layer view needs."""
    return replace(setup, probes=tuple(probe for probe in setup.probes if probe.name in PROBES))


def look_inside(setup: Setup, state: ArmState) -> Layers:
    """Measure a network on the probe batch of its trial, as the trial itself would; nothing is changed."""
    found: dict[int, dict[str, float]] = {}
    with np.errstate(all="ignore"):
        for number, numbers in measure(setup, "during", state.theta, state.running, state.update):
            found.setdefault(number, {}).update(numbers)
    own = [found[layer.number] for layer in setup.mlp.layers]
    return Layers(
        [_signal(numbers) for numbers in own],
        [numbers["delta_rms"] for numbers in own],
        [numbers["grad_rms"] for numbers in own],
        [numbers["dead_share"] for numbers in own],
    )


def _signal(numbers: dict[str, float]) -> float:
    place = "stream" if "activation_std.stream" in numbers else "post"
    mean, std = numbers[f"activation_mean.{place}"], numbers[f"activation_std.{place}"]
    try:
        return math.hypot(mean, std)
    except OverflowError:
        return math.inf

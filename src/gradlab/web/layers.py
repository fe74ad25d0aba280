"""The layer view: signal, δ, weight gradient and dead units of every layer, as the lab's own probes measure them.

A frame is made many times a second beside the training, so only what the page draws is computed, on windows that are
made once; `tests/web` holds every number against the probes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.mlp import Layer, Record
from gradlab.probes.base import rms
from gradlab.trials.setup import Setup
from gradlab.web.pair import ArmState

Array = NDArray[Any]
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


class Inside:
    """One network as it is looked at: its own copy of the parameters, and windows on it. Never the trainer's arrays."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._theta, gradient = np.array(setup.theta), np.zeros_like(setup.theta)
        self._p, self._g = setup.mlp.layout.windows(self._theta), setup.mlp.layout.windows(gradient)
        self._state: ArmState | None = None

    def take(self, state: ArmState) -> None:
        """Look at this state from now on."""
        self._state = state
        np.copyto(self._theta, state.theta)

    def measure(self) -> Layers:
        """One forward and one backward pass on the probe batch of the trial; nothing is changed."""
        setup, mlp = self._setup, self._setup.mlp
        with np.errstate(all="ignore"):
            output, tape = mlp.forward(self._p, setup.probe_x, self._running)
            mlp.backward(self._p, tape, setup.loss.value_and_gradient(output, setup.probe_y)[1], self._g)
            seen = tape.records
            return Layers(
                [rms(record.post if record.stream is None else record.stream) for record in seen],
                [rms(record.delta) for record in seen if record.delta is not None],
                [rms(own.weight) for own in self._g.layers],
                [_dead_share(layer, record) for layer, record in zip(mlp.layers, seen, strict=True)],
            )

    def answer(self, x: Array) -> Array:
        """The outputs for samples, in evaluation mode."""
        with np.errstate(all="ignore"):
            output: Array = self._setup.mlp.forward(self._p, x, self._running, training=False)[0]
        return output

    @property
    def _running(self) -> list[Any]:
        assert self._state is not None, "there is nothing to look at yet"
        return list(self._state.running)


def _dead_share(layer: Layer, record: Record) -> float:
    return float((layer.activation.slope(record.pre, record.post) == 0).all(0).mean())

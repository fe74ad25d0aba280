"""What a network computes before and in its first updates, hashed: two arms with equal hashes do the same.

On the probe batch, in the trial's own precision, by the reference network and optimizer:

    output, tape ← forward(θ, x)           training mode
    g = dL/dθ ← backward(tape)             δ of every layer stays on the tape
    θ ← θ + Δ(clip(g), η)                  twice: optimizers with a memory show it in their second update
    output ← forward(θ, x)                 evaluation mode, with the running statistics of the two passes

Names and formulas may hide a difference (an ε, a momentum, a parameter of a user's part); these numbers do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.audits.traits import Trait, fingerprint, hash_together
from gradlab.optim.clipping import clip_gradient
from gradlab.probes.base import rms
from gradlab.trials.seeding import seeded
from gradlab.trials.setup import Setup

Array = NDArray[Any]
UPDATES = 2
MOST_ROWS = 256
"""Rows of the probe batch that are run."""


@dataclass(frozen=True)
class Behavior:
    """Hashes and sizes of what one network computes."""

    outputs: str
    output_size: float
    deltas: str
    delta_size: float
    """Of the first layer."""
    updates: str
    update_size: float
    running: str | None
    """Running statistics of the norms; None if no norm has any."""
    evaluated: str
    evaluated_size: float

    def as_traits(self) -> list[Trait]:
        """One trait for each thing that is computed."""
        found = [
            _trait("outputs in training mode", self.outputs, self.output_size),
            _trait("δ of every layer", self.deltas, self.delta_size, " in layer 1"),
            _trait(f"first {UPDATES} updates", self.updates, self.update_size),
            _trait("outputs in evaluation mode", self.evaluated, self.evaluated_size),
        ]
        if self.running is not None:
            found.append(Trait("running statistics", self.running, f"hash {self.running[:8]}", computed=True))
        return found


def _trait(name: str, value: str, size: float, where: str = "") -> Trait:
    return Trait(name, value, f"RMS {size:.3g}{where}", computed=True)


def compute_behavior(setup: Setup) -> Behavior:
    """Run the network and its optimizer on the probe batch."""
    mlp, optimizer, clip = setup.mlp, setup.optimizer, setup.trial.config.train.clip
    x, y = setup.probe_x[:MOST_ROWS], setup.probe_y[:MOST_ROWS]
    theta = setup.theta.copy()
    gradient = np.zeros_like(theta)
    p, g = mlp.layout.windows(theta), mlp.layout.windows(gradient)
    running, state = mlp.initial_running(setup.dtype), optimizer.init(theta)
    outputs, deltas, updates, sizes = [], [], [], []
    with np.errstate(all="ignore"), seeded(setup.trial.seed):  # a user's part may draw numbers itself
        for rate in first_rates(setup):
            output, tape = mlp.forward(p, x, running)
            loss, d_output = setup.loss.value_and_gradient(output, y)
            mlp.backward(p, tape, d_output, g)
            delta, state = optimizer.update(clip_gradient(gradient, clip), state, theta, rate)
            outputs += [fingerprint(output), repr(float(loss))]
            by_layer = [record.delta for record in tape.records if record.delta is not None]
            deltas += [fingerprint(values) for values in by_layer]
            updates.append(fingerprint(delta))
            sizes.append((rms(output), rms(by_layer[0]), rms(delta)))
            theta += delta
            running = tape.running
        evaluated = mlp.forward(p, x, running, training=False)[0]
    memory = [fingerprint(values) for statistics in running if statistics is not None for values in statistics]
    return Behavior(
        hash_together(outputs),
        sizes[0][0],
        hash_together(deltas),
        sizes[0][1],
        hash_together(updates),
        sizes[0][2],
        hash_together(memory) if memory else None,
        fingerprint(evaluated),
        rms(evaluated),
    )


def first_rates(setup: Setup) -> tuple[float, ...]:
    """The learning rates of the first updates; the base rate where nothing is trained."""
    rates = [float(rate) for rate in setup.rates[:UPDATES]]
    return (*rates, *[setup.trial.config.train.lr] * (UPDATES - len(rates)))

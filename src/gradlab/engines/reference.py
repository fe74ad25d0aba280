"""The reference engine: plain NumPy, written to be read. It is the lab's definition of training.

    for each step:
        x, y ← the rows of this batch                   decided before training, see trial/setup.py
        output, tape ← forward(θ, x)                    network/mlp.py
        L, dL/doutput ← loss(output, y)                 network/losses/
        g = dL/dθ ← backward(tape, dL/doutput)          network/mlp.py
        g ← clip(g)                                     optim/clipping.py
        Δ, state ← optimizer(g, state, θ, η_step)       optim/optimizers/
        θ ← θ + Δ

Evaluation and probes read θ and never change it, nor the norms' running statistics.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gradlab.engines.base import Engine, Tick, require_denormals
from gradlab.network.layout import Parameters
from gradlab.network.norms.base import Running
from gradlab.optim.clipping import clipped
from gradlab.probes.base import LayerView
from gradlab.trial.outcome import Outcome
from gradlab.trial.recorder import Recorder, count_correct
from gradlab.trial.setup import Setup

EVALUATION_ROWS = 1000
"""Rows per forward pass of an evaluation."""
TICKS = 20
"""Steps between two signs of life."""


class Reference(Engine):
    """NumPy, any network, optimiser and measure the lab can express, float32 and float64."""

    name = "reference"
    numerics: ClassVar[int] = 1

    def train(self, setup: Setup, tick: Tick | None = None) -> Outcome:
        """The loop above, with its notebook."""
        require_denormals()
        with np.errstate(all="ignore"):  # overflow is an outcome here, not a warning
            return _train(setup, tick)


def _train(setup: Setup, tick: Tick | None) -> Outcome:
    mlp, record = setup.mlp, Recorder(setup)
    theta = setup.theta.copy()
    gradient = np.zeros_like(theta)
    p, g = mlp.layout.windows(theta), mlp.layout.windows(gradient)
    running = mlp.initial_running(setup.dtype)
    state = setup.optimizer.init(theta)
    clip = setup.trial.config.train.clip
    delta = None

    if 0 in setup.moments:
        _measure(setup, record, 0, p, running, None)
    if setup.steps == 0:
        record.first_loss = _first_loss(setup, p, running)

    for step, rows in setup.batches():
        record.start_clock()
        x, y = setup.dataset.gather(rows, setup.dtype)
        output, tape = mlp.forward(p, x, running)
        loss, d_output = setup.loss.value_and_gradient(output, y)
        if not record.step(loss, output, y):
            break
        mlp.backward(p, tape, d_output, g)
        delta, state = setup.optimizer.update(clipped(gradient, clip), state, theta, setup.rates[step])
        theta += delta
        running = tape.running
        record.stop_clock()

        done = step + 1
        if done % setup.steps_per_epoch == 0 or done == setup.steps:
            record.end_epoch(_evaluations(setup, p, running, done))
        if done in setup.moments:
            _measure(setup, record, done, p, running, delta)
        if tick is not None and done % TICKS == 0:
            tick(done)
    return record.outcome(theta)


def _first_loss(setup: Setup, p: Parameters, running: list[Running]) -> float:
    """Loss of the first batch, for a trial that only looks at the start."""
    x, y = setup.dataset.gather(setup.order(0)[: setup.batch], setup.dtype)
    return setup.loss.value(setup.mlp.forward(p, x, running)[0], y)


def _evaluations(setup: Setup, p: Parameters, running: list[Running], done: int) -> dict[str, float]:
    """Loss and accuracy on validation and test data, in evaluation mode, where they are due."""
    epoch = -(-done // setup.steps_per_epoch)
    if done != setup.steps and epoch % setup.trial.config.measure.evaluate_every:
        return {}
    numbers = {}
    for split, rows in (("validation", setup.dataset.validation), ("test", setup.dataset.test)):
        if len(rows) == 0:
            continue
        loss, correct = 0.0, 0
        for start in range(0, len(rows), EVALUATION_ROWS):
            x, y = setup.dataset.gather(rows[start : start + EVALUATION_ROWS], setup.dtype)
            output, _ = setup.mlp.forward(p, x, running, training=False)
            loss += setup.loss.value(output, y) * len(x)
            correct += count_correct(output, y) if setup.dataset.classes is not None else 0
        numbers[f"{split}_loss"] = loss / len(rows)
        if setup.dataset.classes is not None:
            numbers[f"{split}_accuracy"] = correct / len(rows)
    return numbers


def _measure(
    setup: Setup, record: Recorder, step: int, p: Parameters, running: list[Running], delta: NDArray[Any] | None
) -> None:
    """Look inside on the probe batch: one forward and, if a probe needs it, one backward pass of its own."""
    moment = setup.moments[step]
    probes = [probe for probe in setup.probes if moment in probe.moments]
    mlp = setup.mlp
    output, tape = mlp.forward(p, setup.probe_x, running)
    g = None
    if any("backward" in probe.needs for probe in probes):
        g = mlp.layout.windows(np.zeros_like(setup.theta))
        _, d_output = setup.loss.value_and_gradient(output, setup.probe_y)
        mlp.backward(p, tape, d_output, g)
    updates = mlp.layout.windows(delta) if delta is not None else None
    for layer, own, seen in zip(mlp.layers, p.layers, tape.records, strict=True):
        index = layer.number - 1
        view = LayerView(
            number=layer.number,
            weight=own.weight,
            weight_gradient=g.layers[index].weight if g else None,
            bias_gradient=g.layers[index].bias if g else None,
            delta=seen.delta,
            pre=seen.pre,
            post=seen.post,
            stream=seen.stream,
            slope=layer.activation.slope(seen.pre, seen.post),
            update=updates.layers[index].weight if updates else None,
        )
        for probe in probes:
            record.layer(step, layer.number, probe.measure(view))

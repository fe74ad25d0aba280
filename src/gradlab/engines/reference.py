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
from gradlab.trials.inside import evaluation_is_due, evaluations, measure
from gradlab.trials.outcome import Outcome
from gradlab.trials.recorder import Recorder, count_correct
from gradlab.trials.setup import EVALUATION_ROWS, Setup

TICKS = 20
"""Steps between two signs of life."""


class Reference(Engine):
    """NumPy, any network, optimizer and measure the lab can express, float32 and float64."""

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

    def answer(x: NDArray[Any]) -> NDArray[Any]:
        return mlp.forward(p, x, running, training=False)[0]

    if 0 in setup.moments:
        measure(setup, record, 0, theta, running, None)
    record.snapshot(theta, running)
    if setup.steps == 0:
        record.first_loss = _first_loss(setup, p, running)

    for step, rows in setup.batches():
        record.start_clock()
        x, y = setup.dataset.gather(rows, setup.dtype)
        output, tape = mlp.forward(p, x, running)
        loss, d_output = setup.loss.value_and_gradient(output, y)
        correct = count_correct(output, y) if setup.dataset.classes is not None else 0
        if not record.step(loss, correct, len(x)):
            break
        mlp.backward(p, tape, d_output, g)
        delta, state = setup.optimizer.update(clipped(gradient, clip), state, theta, float(setup.rates[step]))
        theta += delta
        running = tape.running
        record.stop_clock()

        done = step + 1
        if evaluation_is_due(setup, done):
            record.evaluated(evaluations(setup, answer, EVALUATION_ROWS))
        if done in setup.moments:
            measure(setup, record, done, theta, running, delta)
        record.snapshot(theta, running)
        if tick is not None and done % TICKS == 0:
            tick(done, loss)
    return record.outcome(theta, running)


def _first_loss(setup: Setup, p: Parameters, running: list[Running]) -> float:
    """Loss of the first batch, for a trial that only looks at the start."""
    x, y = setup.dataset.gather(setup.order(0)[: setup.batch], setup.dtype)
    return setup.loss.value(setup.mlp.forward(p, x, running)[0], y)

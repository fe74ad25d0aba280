"""The reference engine: plain NumPy, written to be read. It is the definition of training.

    for each step:
        x, y ← the rows of this batch                   decided before training, see trials/setup.py
        output, tape ← forward(θ, x)                    network/mlp.py
        L, dL/doutput ← loss(output, y)                 network/losses/
        g = dL/dθ ← backward(tape, dL/doutput)          network/mlp.py
        g ← clip(g)                                     optim/clipping.py
        Δ, state ← optimizer(g, state, θ, η_step)       optim/optimizers/
        θ ← θ + Δ

Evaluation, probes and snapshots between the steps are in loop.py, the same for every engine.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gradlab.engines.base import Engine, State, Stretch, Trainer
from gradlab.optim.optimizers import clip_gradient
from gradlab.trials.recorder import count_correct
from gradlab.trials.setup import Setup

Array = NDArray[Any]


class Reference(Engine):
    """NumPy; supports every network, optimizer and measure, float32 and float64."""

    name = "reference"
    numerics: ClassVar[int] = 1

    def trainer(self, setup: Setup) -> Trainer:
        """Return the loop above as a trainer."""
        return ReferenceTrainer(setup)


class ReferenceTrainer(Trainer):
    """θ, the optimizer's state and the norms' running statistics, advanced step by step."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._theta = setup.theta.copy()
        self._gradient = np.zeros_like(self._theta)
        self._p, self._g = (setup.mlp.layout.windows(flat) for flat in (self._theta, self._gradient))
        self._running = setup.mlp.initial_running(setup.dtype)
        self._state = setup.optimizer.init(self._theta)
        self._delta: Array | None = None
        self._batches = setup.batches()

    def advance(self, start: int, stop: int) -> Stretch:
        """Forward, loss, backward, update: the equations above."""
        setup, theta, stretch = self._setup, self._theta, Stretch()
        mlp, clip, classes = setup.mlp, setup.trial.config.train.clip, setup.dataset.classes
        for step, rows in islice(self._batches, stop - start):
            x, y = setup.dataset.gather(rows, setup.dtype)
            output, tape = mlp.forward(self._p, x, self._running, draws=setup.draws(step))
            loss, d_output = setup.loss.value_and_gradient(output, y)
            correct = count_correct(setup.loss.class_outputs(output), y) if classes is not None else 0
            if not stretch.add(loss, correct, len(x)):
                break
            mlp.backward(self._p, tape, d_output, self._g)
            gradient = clip_gradient(self._gradient, clip)
            rate = float(setup.rates[step]) * self.rate_factor
            self._delta, self._state = setup.optimizer.update(gradient, self._state, theta, rate)
            theta += self._delta
            self._running = tape.running
        return stretch

    def state(self) -> State:
        """Return θ itself, not a copy."""
        return State(self._theta, self._running, self._delta)

    def predict(self, x: Array) -> Array:
        """Forward in evaluation mode."""
        return self._setup.mlp.forward(self._p, x, self._running, training=False)[0]

    def first_loss(self) -> float:
        """Forward in training mode on the first batch."""
        x, y = self._setup.first_batch()
        output = self._setup.mlp.forward(self._p, x, self._running, draws=self._setup.draws(0))[0]
        return self._setup.loss.value(output, y)

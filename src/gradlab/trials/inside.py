"""Looking at a network in training, for any engine: evaluation on held-out data, and the probes.

Both only read. An engine hands over its parameters (in the lab's own layout) or a function that answers a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.norms.base import Running
from gradlab.probes.base import LayerView
from gradlab.trials.recorder import Recorder, count_correct
from gradlab.trials.setup import Setup

Array = NDArray[Any]


def evaluation_is_due(setup: Setup, done: int) -> bool:
    """After the last step, and after every so many epochs, if there is anything to evaluate on."""
    if len(setup.dataset.validation) + len(setup.dataset.test) == 0:
        return False
    epoch, rest = divmod(done, setup.steps_per_epoch)
    return done == setup.steps or (rest == 0 and epoch % setup.trial.config.measure.evaluate_every == 0)


def evaluations(setup: Setup, answer: Callable[[Array], Array], rows_at_once: int) -> dict[str, float]:
    """Loss and accuracy on validation and test data; `answer` gives the outputs of a batch in evaluation mode."""
    numbers = {}
    for split, rows in (("validation", setup.dataset.validation), ("test", setup.dataset.test)):
        if len(rows) == 0:
            continue
        loss, correct = 0.0, 0
        for start in range(0, len(rows), rows_at_once):
            x, y = setup.dataset.gather(rows[start : start + rows_at_once], setup.dtype)
            output = answer(x)
            loss += setup.loss.value(output, y) * len(x)
            correct += count_correct(output, y) if setup.dataset.classes is not None else 0
        numbers[f"{split}_loss"] = loss / len(rows)
        if setup.dataset.classes is not None:
            numbers[f"{split}_accuracy"] = correct / len(rows)
    return numbers


def measure(
    setup: Setup, record: Recorder, step: int, theta: Array, running: list[Running], delta: Array | None
) -> None:
    """Run the probes on the probe batch: one forward and, if a probe needs it, one backward pass of their own."""
    moment = setup.moments[step]
    probes = [probe for probe in setup.probes if moment in probe.moments]
    mlp = setup.mlp
    p = mlp.layout.windows(theta)
    output, tape = mlp.forward(p, setup.probe_x, running)
    g = None
    if any("backward" in probe.needs for probe in probes):
        g = mlp.layout.windows(np.zeros_like(theta))
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

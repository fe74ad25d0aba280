"""Measure a network during training, for any engine: evaluation on held-out data, and the probes. Both only read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.data.base import SplitName
from gradlab.network.layout import Parameters
from gradlab.network.mlp import Tape
from gradlab.network.norms import Running
from gradlab.probes import LayerView, Moment, Probe

if TYPE_CHECKING:
    from gradlab.trials.setup import Setup

Array = NDArray[Any]
EVALUATION_ROWS = 1000
"""Rows per forward pass of an evaluation."""


def has_evaluation(setup: Setup) -> bool:
    """Whether the task has validation or test data."""
    return len(setup.dataset.validation) + len(setup.dataset.test) > 0


def evaluation_steps(setup: Setup) -> range:
    """The steps that complete `measure.evaluate_every` epochs. The last step is evaluated too, even if not included."""
    if not has_evaluation(setup):
        return range(0)
    every = setup.steps_per_epoch * setup.trial.config.measure.evaluate_every
    return range(every, setup.steps + 1, every)


def evaluation_is_due(setup: Setup, done: int) -> bool:
    """Whether to evaluate after `done` steps: after the last, and after every `measure.evaluate_every` epochs."""
    return has_evaluation(setup) and (done == setup.steps or done in evaluation_steps(setup))


def epoch_steps(setup: Setup) -> range:
    """The steps that complete an epoch."""
    return range(setup.steps_per_epoch, setup.steps + 1, setup.steps_per_epoch)


def evaluate(
    setup: Setup, predict: Callable[[Array], Array], splits: Sequence[SplitName] = ("validation", "test")
) -> dict[str, float]:
    """Return loss and scores on validation and test data; `predict` maps a batch to outputs in evaluation mode."""
    numbers = {}
    for split in splits:
        rows = setup.dataset.rows(split)
        if len(rows) == 0:
            continue
        loss, outputs, targets = 0.0, [], []
        for start in range(0, len(rows), EVALUATION_ROWS):
            x, y = setup.dataset.gather(rows[start : start + EVALUATION_ROWS], setup.dtype)
            output = predict(x)
            loss += setup.loss.value(output, y) * len(x)
            outputs.append(output if setup.dataset.classes is None else setup.loss.class_outputs(output))
            targets.append(y)
        numbers[f"{split}_loss"] = loss / len(rows)
        for score in setup.scores:
            numbers[f"{split}_{score.name}"] = score.value(np.concatenate(outputs), np.concatenate(targets))
    return numbers


def measure(
    setup: Setup, moment: Moment, theta: Array, running: Sequence[Running], update: Array | None
) -> Iterator[tuple[int, Mapping[str, float]]]:
    """Yield (layer number, measures) for every layer and probe, from one forward and, if needed, one backward pass."""
    yield from observe(setup, moment, theta, running, update)[1]


def observe(
    setup: Setup, moment: Moment, theta: Array, running: Sequence[Running], update: Array | None
) -> tuple[Array, Iterator[tuple[int, Mapping[str, float]]]]:
    """Return the network's output on the probe batch, and what `measure` yields."""
    probes = [probe for probe in setup.probes if moment in probe.moments]
    mlp = setup.mlp
    p = mlp.layout.windows(theta)
    output, tape = mlp.forward(p, setup.probe_x, list(running))
    g = None
    if any("backward" in probe.needs for probe in probes):
        g = mlp.layout.windows(np.zeros_like(theta))
        _, d_output = setup.loss.value_and_gradient(output, setup.probe_y)
        mlp.backward(p, tape, d_output, g)
    return output, _read(setup, probes, p, tape, g, update)


def _read(
    setup: Setup, probes: Sequence[Probe], p: Parameters, tape: Tape, g: Parameters | None, update: Array | None
) -> Iterator[tuple[int, Mapping[str, float]]]:
    """Show every layer to every probe."""
    mlp = setup.mlp
    updates = mlp.layout.windows(update) if update is not None else None
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
            yield layer.number, probe.measure(view)


def sharpness(setup: Setup, theta: Array, running: Sequence[Running]) -> float:
    """Return the largest eigenvalue of the Hessian of the training loss, on the first samples of the training set.

    Lanczos on products H v = (g(θ + ε v) − g(θ − ε v))/2ε, in float64 and without noise; NaN if a gradient is.
    """
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    mlp, count = setup.mlp, setup.trial.config.measure.sharpness
    x, y = setup.dataset.gather(setup.dataset.train[:count], np.float64)
    start, gradient = theta.astype(np.float64), np.zeros(theta.size)
    wide: list[Running] = [None if own is None else (own[0].astype(float), own[1].astype(float)) for own in running]

    def gradient_at(at: Array) -> Array:
        p = mlp.layout.windows(at)
        output, tape = mlp.forward(p, x, wide)
        mlp.backward(p, tape, setup.loss.value_and_gradient(output, y)[1], mlp.layout.windows(gradient))
        return gradient.copy()

    def product(v: Array) -> Array:
        v = v.ravel()
        step = 1e-5 / max(float(np.linalg.norm(v)), 1e-300)
        return (gradient_at(start + step * v) - gradient_at(start - step * v)) / (2 * step)

    if not np.isfinite(gradient_at(start)).all():
        return float("nan")
    if theta.size < 3:
        hessian = np.stack([product(row) for row in np.eye(theta.size)])
        return float(np.linalg.eigvalsh((hessian + hessian.T) / 2)[-1])
    first = setup.streams.uniform("sharpness", (theta.size,)) - 0.5
    operator = LinearOperator((theta.size, theta.size), matvec=product, dtype=np.float64)
    try:
        largest = eigsh(operator, k=1, which="LA", v0=first, tol=1e-4, return_eigenvectors=False)
    except ArpackError:
        return float("nan")
    return float(largest[0])

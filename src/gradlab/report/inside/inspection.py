"""One look into a network after a step: signal, gradients, Jacobians, dead units, one input through all layers.

Jacobians are exact and cost one backward pass: k copies of one input, the identity as dL/d output. Row i of δ in layer
l is then ∂out_i/∂z_l. Without the identity term of the skips, the same pass runs through a network whose skips hand
nothing back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.activations.identity import Identity
from gradlab.network.layout import LayerParameters, Layout, Parameters
from gradlab.network.mlp import MLP, Layer, Tape
from gradlab.network.norms.base import Running
from gradlab.network.norms.none import NoNorm
from gradlab.network.skips.base import Gradients, Skip
from gradlab.probes.base import rms
from gradlab.trials.setup import Setup

Array = NDArray[Any]
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_SAMPLES, MOST_WIDTH, MOST_UNITS = 64, 128, 64
HIGHWAY_SAMPLES = 4


@dataclass(frozen=True)
class Inspection:
    """A network after a step, layer by layer (rows are layers, in forward order)."""

    step: int
    loss: float
    signal: Array
    """Quantiles of |activation| (layer, quantile): the residual stream where there is one."""
    entering: Array
    """Root mean square of what each weight matrix multiplies."""
    delta: Array
    """Root mean square of δ = dL/dz."""
    gradient: Array
    """Root mean square of dL/dW, about their product."""
    dead: Array
    """Share of units with slope 0 on the whole batch."""
    journey: Array
    """One input on its way: (layer, unit)."""
    highway: Array | None = None
    """Largest singular value of ∂out/∂z by layer, with the identity terms of the skips."""
    branches: Array | None = None
    """The same without them."""
    spectrum: Array | None = None
    """Singular values of ∂out/∂input, largest first: end to end."""
    gains: Array | None = None
    """(block, 2): largest and root mean square singular value of each block's own Jacobian."""
    update: Array | None = None
    """‖ΔW‖/‖W‖ of the step before, where the study measured it."""


class Severed(Skip):
    """Another skip in the forward pass; in the backward pass its identity term is cut."""

    name = "severed"
    formula = ""

    def __init__(self, skip: Skip) -> None:
        object.__setattr__(self, "whole", skip)

    @property
    def place(self) -> Any:  # type: ignore[override]
        """As the other one."""
        return self.whole.place  # type: ignore[attr-defined]

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """As the other one."""
        found: tuple[Array, Any] = self.whole.forward(x, branch, p)  # type: ignore[attr-defined]
        return found

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """Nothing along the skip."""
        _, d_branch, gradients = self.whole.backward(dy, p, cache)  # type: ignore[attr-defined]
        return None, d_branch, gradients


def inspect_network(setup: Setup, theta: Array, step: int) -> Inspection:
    """Inspect the network of a set-up with these parameters, on its probe batch."""
    mlp, flat = setup.mlp, theta.astype(np.float64)
    p = mlp.layout.windows(flat)
    running = mlp.initial_running(np.float64)
    x = setup.probe_x[:MOST_SAMPLES].astype(np.float64)
    y = setup.dataset.typed(setup.probe_y[:MOST_SAMPLES], np.float64)
    gradient = mlp.layout.windows(np.zeros_like(flat))
    with np.errstate(all="ignore"):
        output, tape = mlp.forward(p, x, running)
        loss, d_output = setup.loss.value_and_gradient(output, y)
        mlp.backward(p, tape, d_output, gradient)
        seen = Inspection(
            step,
            float(loss),
            np.array([np.quantile(np.abs(_shown(tape, i)), QUANTILES) for i in range(len(tape.records))]),
            np.array([_rms(record.x) for record in tape.records]),
            np.array([_rms(record.delta) for record in tape.records]),
            np.array([_rms(own.weight) for own in gradient.layers]),
            np.array([_dead(layer, tape) for layer in mlp.layers]),
            np.array([_padded(_shown(tape, i)[0], mlp) for i in range(len(tape.records))]),
        )
        if any(layer.norm.has_memory for layer in mlp.layers) or mlp.layers[-1].fan_in > MOST_WIDTH:
            return seen
        whole = [_rows(mlp, p, x[i : i + 1], running) for i in range(min(HIGHWAY_SAMPLES, len(x)))]
        severed = replace(mlp, skip=Severed(mlp.skip))
        cut = [_rows(severed, p, x[i : i + 1], running) for i in range(min(HIGHWAY_SAMPLES, len(x)))]
        return replace(
            seen,
            highway=_norms(whole),
            branches=_norms(cut),
            spectrum=_median([_spectrum(_end_to_end(mlp, p, x[i : i + 1], running)) for i in range(len(whole))]),
            gains=_gains(mlp, p, tape),
        )


def _shown(tape: Tape, index: int) -> Array:
    record = tape.records[index]
    return record.post if record.stream is None else record.stream


def _rms(values: Array | None) -> float:
    return float("nan") if values is None else rms(values)


def _dead(layer: Layer, tape: Tape) -> float:
    record = tape.records[layer.number - 1]
    return float(np.mean((layer.activation.slope(record.pre, record.post) == 0).all(0)))


def _padded(row: Array, mlp: MLP) -> Array:
    """A layer's numbers for one input, as many as the picture is wide."""
    width = min(MOST_UNITS, max(layer.fan_out for layer in mlp.layers))
    return np.concatenate([row[:width], np.full(max(width - len(row), 0), np.nan)])


def _rows(mlp: MLP, p: Parameters, x: Array, running: list[Running]) -> list[Array]:
    """∂out/∂z of every layer for one input: (output, unit)."""
    outputs = mlp.layers[-1].fan_out
    _, tape = mlp.forward(p, np.repeat(x, outputs, axis=0), running)
    mlp.backward(p, tape, np.eye(outputs), p.zeros())
    return [record.delta for record in tape.records if record.delta is not None]


def _norms(samples: list[list[Array]]) -> Array:
    """Largest singular value by layer, median over samples."""
    return _median([np.array([np.linalg.norm(rows, 2) for rows in each]) for each in samples])


def _end_to_end(mlp: MLP, p: Parameters, x: Array, running: list[Running]) -> Array:
    """∂out/∂input for one input: (output, input)."""
    if mlp.stem is not None:
        rows: Array = _rows(mlp, p, x, running)[0] @ p.layers[0].weight.T
        return rows
    return _rows(*_with_entry(mlp, p), x, [None, *running])[0]


def _with_entry(mlp: MLP, p: Parameters) -> tuple[MLP, Parameters]:
    """The network behind a layer that hands its input on: the δ of that layer is the gradient of the input."""
    first = mlp.blocks[0][0] if mlp.blocks else mlp.head
    assert first is not None
    width = first.fan_in
    blocks = tuple(tuple(replace(layer, number=layer.number + 1) for layer in block) for block in mlp.blocks)
    head = None if mlp.head is None else replace(mlp.head, number=mlp.head.number + 1)
    entry = LayerParameters(np.eye(width), None, {})
    stem = Layer(1, width, width, Identity(), NoNorm(), False)
    return replace(mlp, stem=stem, blocks=blocks, head=head, layout=Layout(())), Parameters(
        (entry, *p.layers), p.blocks
    )


def _spectrum(rows: Array) -> Array:
    """Singular values, largest first; what rounding cannot tell from 0 is 0."""
    values: Array = np.linalg.svd(rows, compute_uv=False)
    return np.where(values > max(rows.shape) * np.finfo(float).eps * values[0], values, 0.0)


def _median(values: list[Array]) -> Array:
    found: Array = np.median(values, axis=0)
    return found


def _gains(mlp: MLP, p: Parameters, tape: Tape) -> Array:
    """Singular values of ∂(block's output)/∂(its input), block by block, at the first sample."""
    found = []
    entry = None if mlp.stem is None else tape.records[0].stream
    for index, block in enumerate(mlp.blocks):
        x = tape.records[block[0].number - 1].x if entry is None else entry
        own = tuple(replace(layer, number=number) for number, layer in enumerate(block, 1))
        alone = replace(mlp, stem=None, blocks=(own,), head=None, layout=Layout(()))
        parameters = Parameters(tuple(p.layers[layer.number - 1] for layer in block), p.blocks[index : index + 1])
        rows = _end_to_end(alone, parameters, x[:1], [None] * len(block))
        values = np.linalg.svd(rows, compute_uv=False)
        found.append([values[0], float(np.sqrt(np.mean(values**2)))])
        entry = tape.records[block[-1].number - 1].stream
    return np.array(found).reshape(len(mlp.blocks), 2)

"""One look into a network after a step: signal, gradients, Jacobians, dead units, one input through all layers.

Jacobians are exact and cost one backward pass: k copies of one input, the identity as dL/d output. Row i of δ in layer
l is then ∂out_i/∂z_l. Without the identity term of the skips, the same pass runs through a network whose skips hand
nothing back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.audits.start import gain_of
from gradlab.facts import Fact
from gradlab.network.activations import Identity
from gradlab.network.layout import LayerParameters, Layout, Parameters
from gradlab.network.mlp import MLP, Layer, Tape
from gradlab.network.norms import NoNorm, Running
from gradlab.network.skips import Gradients, Skip
from gradlab.probes import rms
from gradlab.spec.config import Config
from gradlab.spec.stored import Count, Stored, Whole
from gradlab.tell.networks import Course, diagnose_course
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


# What happens inside two arms while they train: inspections of both at one seed.


@dataclass(frozen=True)
class Recording:
    """Inspections of two arms at one seed, at the same steps if both have them."""

    arms: tuple[str, str]
    seed: int
    formulas: tuple[str, str]
    """The forward pass of a block, of each arm."""
    inspections: tuple[tuple[Inspection, ...], tuple[Inspection, ...]]
    """Of each arm, in the order of steps."""
    same_bits: bool | None
    """Whether the last inspected parameters are those that the run kept; None if it kept none."""

    def to_json(self) -> dict[str, Any]:
        """Plain data with six digits per number."""
        return {
            "arms": list(self.arms),
            "seed": self.seed,
            "formulas": list(self.formulas),
            "same_bits": self.same_bits,
            "frames": [[_to_plain(one) for one in arm] for arm in self.inspections],
        }

    @property
    def steps(self) -> list[int]:
        """The inspected steps; an arm with a smaller budget stops at its own last one."""
        return [one.step for one in max(self.inspections, key=len)]

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> Recording:
        """The recording that a run's folder keeps; a `ValueError` names what does not fit."""
        found = SavedRecording.fit(tree)
        first, second = (tuple(_from_plain(one) for one in arm) for arm in found.frames)
        for arm in (first, second):
            if len({len(one.delta) for one in arm}) != 1 or [o.step for o in arm] != sorted({o.step for o in arm}):
                raise ValueError("frames: those of an arm do not belong together")
        return Recording(
            (found.arms[0], found.arms[1]),
            found.seed,
            (found.formulas[0], found.formulas[1]),
            (first, second),
            found.same_bits,
        )


Number = float | Literal["nan", "inf", "-inf"] | None
Numbers = Annotated[list[Number], Field(min_length=1)]
Rows = Annotated[list[Numbers], Field(min_length=1)]
Two = Annotated[list[str], Field(min_length=2, max_length=2)]


class SavedInspection(Stored):
    """An `Inspection` as `to_json` gives it: numbers by layer."""

    step: Count
    loss: Number
    signal: Rows
    entering: Numbers
    delta: Numbers
    gradient: Numbers
    dead: Numbers
    journey: Rows
    highway: Numbers | None = None
    branches: Numbers | None = None
    spectrum: Numbers | None = None
    gains: Rows | None = None
    update: Numbers | None = None


class SavedRecording(Stored):
    """What `microworld.json` holds."""

    arms: Two
    seed: Whole
    formulas: Two
    same_bits: bool | None
    frames: Annotated[list[Annotated[list[SavedInspection], Field(min_length=1)]], Field(min_length=2, max_length=2)]


def _to_plain(one: Inspection) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for field in fields(one):
        value = getattr(one, field.name)
        tree[field.name] = _round(value) if isinstance(value, np.ndarray) else value
    return tree


def _round(values: Any) -> Any:
    if values.ndim > 1:
        return [_round(row) for row in values]
    return [None if np.isnan(v) else float(f"{v:.6g}") if np.isfinite(v) else str(v) for v in values.tolist()]


WIDTHS = {"signal": len(QUANTILES), "gains": 2}
"""Numbers per row of the arrays that have a fixed number of them."""
ANY_LENGTH = ("spectrum", "gains")
"""Arrays that are not by layer."""


def _from_plain(saved: SavedInspection) -> Inspection:
    layers = len(saved.delta)
    made: dict[str, Any] = {"step": saved.step, "loss": _parse(saved.loss)}
    for field in fields(Inspection):
        value = getattr(saved, field.name)
        if field.name in made or value is None:
            continue
        try:
            array = np.array([[_parse(v) for v in row] if isinstance(row, list) else _parse(row) for row in value])
        except ValueError:
            raise ValueError(f"frames: the rows of {field.name!r} are not of the same length") from None
        width = WIDTHS.get(field.name)
        if (field.name not in ANY_LENGTH and len(array) != layers) or (width and array.shape[1] != width):
            raise ValueError(f"frames: {field.name!r} has the shape {array.shape}, for {layers} layers")
        made[field.name] = array
    if len({name in made for name in ("highway", "branches", "spectrum", "gains")}) > 1:
        raise ValueError("frames: some of the Jacobians are missing")
    return Inspection(**made)


def _parse(value: float | str | None) -> float:
    return np.nan if value is None else float(value)


def diagnose(recording: Recording, configs: tuple[Config, Config]) -> tuple[Fact, ...]:
    """Each arm at its start, with the cause where the init is one, and what became of it in training."""
    return tuple(
        diagnose_course(arm, config, _course_of(inspections, config))
        for arm, inspections, config in zip(recording.arms, recording.inspections, configs, strict=True)
    )


def _course_of(inspections: tuple[Inspection, ...], config: Config) -> Course:
    start, end = inspections[0], inspections[-1]
    hidden = slice(0, len(start.delta) - (config.model.head == "linear"))
    signal = gain_of(start.signal[hidden, 2] if start.signal[hidden, 2].all() else start.signal[hidden, 4])
    delta, dead = gain_of(start.delta[hidden][::-1]), float(np.mean(end.dead[hidden]))
    return Course(signal, delta, (start.loss, end.loss), end.step - start.step, dead)

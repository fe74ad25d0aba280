"""The network: optional stem, blocks, optional head. Forward and backward, as equations.

    stem    h = f(norm(x W + b))                    input width -> width
    block   h = skip(h, branch(h))                  width -> width, see skips/base.py
            h = skip(h P, branch(h))                where the block changes the width: P is learned
    head    y = f(s (h W + b))                      width -> output width; f = id, s = 1 by default
    noise   h <- a h + b                            in training, where draws are given: see noises.py

Layers are numbered from 1 in forward order over the weight matrices. A forward pass leaves a *tape*: one
record per layer with what backward needs and what probes read. δ of a layer is dL/dz for its z = x W + b.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import PartError, StudyError
from gradlab.network.activations import Activation, Identity
from gradlab.network.inits import Init, LecunNormal
from gradlab.network.layout import PROJECTION, Layout, Parameters, Slot, Tensor, checked
from gradlab.network.noises import Draws, Noise
from gradlab.network.norms import NoNorm, Norm, Running
from gradlab.network.skips import Skip
from gradlab.parts import Catalog, Part
from gradlab.spec.base import scale_value

if TYPE_CHECKING:
    from gradlab.spec.config import Model

Array = NDArray[Any]


@dataclass(frozen=True)
class Layer:
    """One weight matrix with the norm and the activation that belong to it."""

    number: int
    fan_in: int
    fan_out: int
    activation: Activation
    norm: Norm
    in_block: bool
    activates_first: bool = False
    """Whether norm and activation stand before the matrix, as in a pre-activation block."""

    @property
    def units(self) -> int:
        """Units that the norm and the activation act on."""
        return self.fan_in if self.activates_first else self.fan_out


@dataclass
class Record:
    """What one layer leaves on the tape in a forward pass; `delta` is added by backward."""

    x: Array
    """What the weight matrix multiplied, (n, fan_in)."""
    pre: Array
    """What entered the nonlinearity."""
    post: Array
    """What left it."""
    cache: Any = None
    """What the norm's backward needs."""
    branch: Array | None = None
    """F(x) of the block that ends here."""
    skip_cache: Any = None
    """What the skip's backward needs, in the layer that ends a block."""
    stream: Array | None = None
    """Output of the block that ends here, after the skip."""
    delta: Array | None = None
    """dL/dz of this layer."""
    noise: Array | None = None
    """What a noise multiplied `post` by."""
    branch_noise: Array | None = None
    """What a noise multiplied the branch by, in the layer that ends a block."""


@dataclass
class Tape:
    """The input and the records of a forward pass by layer, and the norms' running statistics after it."""

    input: Array
    records: list[Record] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)


@dataclass(frozen=True)
class MLP:
    """The network of a model specification, without its parameters: they come in a flat vector."""

    stem: Layer | None
    blocks: tuple[tuple[Layer, ...], ...]
    head: Layer | None
    skip: Skip
    depth: int
    layout: Layout
    constants: Mapping[str, float] = field(default_factory=dict)
    """The skip's numbers that are not learned."""
    constants_by_width: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """The same by the width of a block, where widths differ."""
    projection: Init = field(default_factory=LecunNormal)
    """How the matrices of skips that change the width are drawn."""
    projection_scale: float = 1.0
    noises: tuple[tuple[str, Noise], ...] = ()
    """The noises of training by place."""
    output_scale: float = 1.0
    """What multiplies the head's product."""

    @staticmethod
    def of(model: Model, input_width: int, output_width: int, catalog: Catalog) -> MLP:
        """Lay out the network; a `StudyError` where widths do not fit."""
        return _lay_out(model, input_width, output_width, catalog)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All weight matrices in forward order."""
        inner = [layer for block in self.blocks for layer in block]
        return tuple(layer for layer in (self.stem, *inner, self.head) if layer is not None)

    @property
    def width(self) -> int:
        """Units of the first block's output; of every block's input, branch and output where all are equal."""
        return self.blocks[0][-1].fan_out if self.blocks else self.layers[0].fan_out

    def initial_running(self, dtype: Any) -> list[Running]:
        """Running mean 0 and variance 1 for norms with a memory."""
        return [
            (np.zeros(layer.units, dtype), np.ones(layer.units, dtype)) if layer.norm.has_memory else None
            for layer in self.layers
        ]

    def flops(self, samples: int, *, backward: bool) -> int:
        """Of the matrix products alone; the gradient of the input is not needed and not counted.

        A matrix of a skip counts as one product per block.
        """
        products = [layer.fan_in * layer.fan_out for layer in self.layers]
        products += [prod(slot.shape) for slot in self.layout.slots if slot.group == "block" and len(slot.shape) == 2]
        return 2 * samples * (3 * sum(products) - products[0] if backward else sum(products))

    # ------------------------------------------------------------------ forward

    def forward(
        self, p: Parameters, x: Array, running: list[Running], *, training: bool = True, draws: Draws | None = None
    ) -> tuple[Array, Tape]:
        """Output of shape (n, output width), and the tape. Without `draws` there is no noise."""
        noises = dict(self.noises) if training and draws is not None else {}

        def noisy(place: str, number: int, x: Array) -> tuple[Array, Array | None]:
            if draws is None or place not in noises or not self.has_noise(place, number):
                return x, None
            return draws.apply(noises[place], place, number, self.along(place, number), x)

        x, _ = noisy("input", 0, x)
        tape = Tape(x)

        def linear(layer: Layer, x: Array) -> Array:
            parameters = p.layers[layer.number - 1]
            z: Array = x @ parameters.weight
            if parameters.bias is not None:
                z += parameters.bias
            return z

        def normed(layer: Layer, x: Array) -> tuple[Array, Any]:
            index = layer.number - 1
            y, cache, after = layer.norm.forward(x, p.layers[index].norm, running[index], training)
            tape.running.append(after)
            return y, cache

        h = x
        if self.stem is not None:
            pre, cache = normed(self.stem, linear(self.stem, h))
            post = self.stem.activation.forward(pre)
            x_in = h
            h, noise = noisy("hidden", 1, post)
            tape.records.append(Record(x_in, pre, post, cache, stream=h, noise=noise))

        for index, block in enumerate(self.blocks):
            own = self._of_block(p, index)
            entry = h @ own[PROJECTION] if _projects(block, own) else h
            for layer in block:
                last, branch, skip_cache, noise, branch_noise = layer is block[-1], None, None, None, None
                if self.skip.place == "before":  # W f(norm(h)) + b
                    pre, cache = normed(layer, h)
                    post = layer.activation.forward(pre)
                    x_in, noise = noisy("hidden", layer.number, post)
                    h = linear(layer, x_in)
                else:  # f(norm(W h + b))
                    x_in = h
                    pre, cache = normed(layer, linear(layer, h))
                    if last and self.skip.place == "inside":
                        branch, branch_noise = noisy("branch", index + 1, pre)
                        pre, skip_cache = self.skip.forward(entry, branch, own)
                    post = layer.activation.forward(pre)
                    h, noise = noisy("hidden", layer.number, post)
                record = Record(x_in, pre, post, cache, branch, skip_cache, noise=noise, branch_noise=branch_noise)
                tape.records.append(record)
            end = tape.records[-1]
            if self.skip.place != "inside":
                end.branch, end.branch_noise = noisy("branch", index + 1, h)
                h, end.skip_cache = self.skip.forward(entry, end.branch, own)
            end.stream = h

        if self.head is not None:
            z = linear(self.head, h)
            tape.running.append(None)
            z = z if self.output_scale == 1.0 else z * x.dtype.type(self.output_scale)
            y = self.head.activation.forward(z)
            tape.records.append(Record(h, z, y))
            h = y
        return h, tape

    # ----------------------------------------------------------------- backward

    def backward(self, p: Parameters, tape: Tape, d_output: Array, gradient: Parameters) -> None:
        """Fill `gradient` with dL/dθ, given dL/d output; leaves each layer's δ on the tape."""

        def linear(layer: Layer, dz: Array) -> None:  # dW = xᵀ δ, db = Σ δ
            record, g = tape.records[layer.number - 1], gradient.layers[layer.number - 1]
            record.delta = dz
            np.matmul(record.x.T, dz, out=g.weight)
            if g.bias is not None:
                np.add.reduce(dz, axis=0, out=g.bias)

        def through(layer: Layer, dz: Array) -> Array:  # dx = δ Wᵀ
            linear(layer, dz)
            dx: Array = dz @ p.layers[layer.number - 1].weight.T
            return dx

        def activation(layer: Layer, dy: Array) -> Array:  # d pre = dy f'(pre)
            record = tape.records[layer.number - 1]
            if record.noise is not None:
                dy = dy * record.noise
            return dy * layer.activation.slope(record.pre, record.post)

        def norm(layer: Layer, dy: Array) -> Array:
            index = layer.number - 1
            dx, found = layer.norm.backward(dy, p.layers[index].norm, tape.records[index].cache)
            for name, value in found.items():
                gradient.layers[index].norm[name][...] = value
            return dx

        dh = d_output
        if self.head is not None:
            dz = activation(self.head, dh)
            dh = through(self.head, dz if self.output_scale == 1.0 else dz * dz.dtype.type(self.output_scale))

        for index in reversed(range(len(self.blocks))):
            block, own = self.blocks[index], self._of_block(p, index)
            end = tape.records[block[-1].number - 1]
            cache = end.skip_cache
            along_skip: Array | None = None
            found: Mapping[str, Any] = {}
            if self.skip.place != "inside":
                along_skip, dh, found = self.skip.backward(dh, own, cache)
                dh = dh if end.branch_noise is None else dh * end.branch_noise
            for layer in reversed(block):
                if self.skip.place == "before":
                    dh = norm(layer, activation(layer, through(layer, dh)))
                else:
                    dh = activation(layer, dh)
                    if layer is block[-1] and self.skip.place == "inside":
                        along_skip, dh, found = self.skip.backward(dh, own, cache)
                        dh = dh if end.branch_noise is None else dh * end.branch_noise
                    dh = through(layer, norm(layer, dh))
            if _projects(block, own):
                x = self._entry(tape, index)
                if along_skip is None:
                    along_skip = np.zeros((len(x), block[-1].fan_out), x.dtype)
                np.matmul(x.T, along_skip, out=gradient.blocks[index][PROJECTION])
                along_skip = along_skip @ own[PROJECTION].T
            if along_skip is not None:
                dh = dh + along_skip
            for name, value in found.items():
                gradient.blocks[index][name][...] = value

        if self.stem is not None:
            linear(self.stem, norm(self.stem, activation(self.stem, dh)))

    def has_noise(self, place: str, number: int) -> bool:
        """Whether a noise of this place acts at this layer or block: the network's output gets none."""
        return place != "hidden" or self.head is not None or number < self.depth or self.skip.place == "before"

    def along(self, place: str, number: int) -> float:
        """How deep a layer or block lies, up to 1."""
        return {"input": 1.0, "hidden": number / self.depth, "branch": number / max(len(self.blocks), 1)}[place]

    def _of_block(self, p: Parameters, block: int) -> Mapping[str, Any]:
        """What belongs to the skip of a block: its tensors, the constants, and the projection if there is one."""
        constants = self.constants_of(block)
        return {**constants, **p.blocks[block]} if constants else p.blocks[block]

    def constants_of(self, block: int) -> Mapping[str, float]:
        """The skip's constants in a block (counted from 0)."""
        return self.constants_by_width.get(self.blocks[block][-1].fan_out, self.constants)

    def _entry(self, tape: Tape, block: int) -> Array:
        """What entered a block (counted from 0)."""
        first = self.blocks[block][0]
        if not first.activates_first:  # the matrix of the first layer multiplies it
            return tape.records[first.number - 1].x
        entered = tape.records[first.number - 2].stream if first.number > 1 else tape.input
        assert entered is not None
        return entered


def _projects(block: Sequence[Layer], own: Mapping[str, Any]) -> bool:
    """Whether the skip of a block changes the width; a skip's own tensor may have the same name elsewhere."""
    return PROJECTION in own and block[0].fan_in != block[-1].fan_out


def _lay_out(model: Model, input_width: int, output_width: int, catalog: Catalog) -> MLP:
    widths = model.layer_widths
    if model.stem == "none" and model.widths is None and input_width != model.width:
        raise StudyError(
            f"without a stem the input width {input_width} has to be the model's width {model.width}; "
            f"use stem: linear or width: {input_width}",
            where="model.stem",
        )
    if model.head == "none" and output_width != widths[-1]:
        other = "width:" if model.widths is None else "a last width of"
        raise StudyError(
            f"without a head the output width {output_width} has to be the model's width {widths[-1]}; "
            f"use head: linear or {other} {output_width}",
            where="model.head",
        )
    skip: Skip = model.skip.build(catalog)
    stem, inner, head = _layers(model, skip, input_width, output_width, catalog)
    per = model.layers_per_block
    blocks = tuple(tuple(inner[i : i + per]) for i in range(0, len(inner), per))
    layers = [layer for layer in (stem, *inner, head) if layer is not None]
    slots = [slot for layer in layers for slot in _of_layer(layer, model)]
    slots += [slot for number, block in enumerate(blocks, 1) for slot in _of_block(number, block, skip, model.depth)]
    units = sorted({block[-1].fan_out for block in blocks})
    by_width = {width: dict(skip.constants(width, model.depth)) for width in units} if len(units) > 1 else {}
    constants = dict(skip.constants(units[0] if len(units) == 1 else widths[-1], model.depth))
    noises = _noises(model, skip, catalog)
    projection: Init = model.projection.build(catalog)
    scale = scale_value(model.projection.scale, model.depth)
    layout = Layout.of(slots, len(blocks))
    return MLP(
        stem,
        blocks,
        head,
        skip,
        model.depth,
        layout,
        constants,
        by_width,
        projection,
        scale,
        noises,
        model.output_factor,
    )


def _noises(model: Model, skip: Skip, catalog: Catalog) -> tuple[tuple[str, Noise], ...]:
    fields = {"input": "input_dropout", "hidden": "dropout", "branch": "branch_dropout"}
    found: list[tuple[str, Noise]] = []
    for place, name in fields.items():
        noise: Noise = getattr(model, name).build(catalog)
        if noise.for_branches and (place != "branch" or skip.name == "none"):
            raise StudyError(
                f"{noise.name!r} drops whole branches, so it needs a skip beside them; use model.branch_dropout in a "
                "network with a skip",
                where=f"model.{name}",
            )
        if noise.name != "none":
            found.append((place, noise))
    return tuple(found)


def _layers(
    model: Model, skip: Skip, input_width: int, output_width: int, catalog: Catalog
) -> tuple[Layer | None, list[Layer], Layer | None]:
    """Stem, layers inside blocks, head."""
    activation: Activation = model.activation.build(catalog)
    norm: Norm = model.norm.build(catalog)
    widths = model.layer_widths

    def hidden(number: int, in_block: bool) -> Layer:
        fan_in = input_width if number == 1 else widths[number - 2]
        linear = (number == model.depth and not model.last_activation) or not (in_block or model.stem_activation)
        first = in_block and skip.place == "before"
        own_norm = norm if in_block or model.stem_norm else NoNorm()
        own = Identity() if linear else activation
        return Layer(number, fan_in, widths[number - 1], own, own_norm, in_block, first)

    stem = hidden(1, False) if model.stem == "linear" else None
    inner = [hidden(number, True) for number in range(2 if stem else 1, model.depth + 1)]
    if model.head == "none":
        return stem, inner, None
    last: Activation = model.head_activation.build(catalog)
    return stem, inner, Layer(model.depth + 1, widths[-1], output_width, last, NoNorm(), False)


def _of_layer(layer: Layer, model: Model) -> Iterator[Slot]:
    yield Slot("layer", layer.number, "weight", (layer.fan_in, layer.fan_out), "weights")
    if model.bias:
        yield Slot("layer", layer.number, "bias", (layer.fan_out,), "biases")
    tensors = checked(layer.norm, layer.norm.tensors(layer.units, model.depth))
    yield from _declared("layer", layer.number, layer.norm, tensors)


def _of_block(number: int, block: Sequence[Layer], skip: Skip, depth: int) -> Iterator[Slot]:
    """The skip's own tensors, and a projection where the width changes along a skip."""
    before, after = block[0].fan_in, block[-1].fan_out
    tensors = checked(skip, skip.tensors(after, depth))
    yield from _declared("block", number, skip, tensors)
    if before != after and skip.name != "none":
        if PROJECTION in tensors:
            raise PartError(
                f"the skip {skip.name!r} calls a tensor {PROJECTION!r}; in a network of several widths that is the "
                "matrix between two widths: use another name"
            )
        yield Slot("block", number, PROJECTION, (before, after), "projection weights")


def _declared(
    group: Literal["layer", "block"], owner: int, part: Part, tensors: Mapping[str, Tensor]
) -> Iterator[Slot]:
    for name, tensor in tensors.items():
        yield Slot(group, owner, name, tensor.shape, tensor.noun or f"{part.part} {name}")

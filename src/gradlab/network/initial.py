"""Initial parameters, drawn once and handed to any engine.

Each layer's matrix comes from a stream keyed by layer number and shape and is scaled afterwards, so arms
whose layer has the same shape start from the same draw. Draws that a norm or a skip asks for have streams of
their own, keyed by layer or block and by name, so they change no other draw. So has the projection of a skip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import StudyError
from gradlab.network.inits import Init, Place
from gradlab.network.layout import PROJECTION
from gradlab.parts import Catalog
from gradlab.spec.base import scale_value
from gradlab.spec.choice import BiasChoice, InitChoice
from gradlab.streams import Streams

if TYPE_CHECKING:
    from gradlab.network.mlp import MLP, Layer


def initial_parameters(mlp: MLP, choice: InitChoice, streams: Streams, catalog: Catalog) -> NDArray[np.float64]:
    """The flat vector before training, in float64: weights by the init, tensors of norms and skips as they declare."""
    check_bias(choice, catalog)
    flat = np.zeros(mlp.layout.size)
    p = mlp.layout.windows(flat)
    for layer, own in zip(mlp.layers, p.layers, strict=True):
        drawn = LayerInit.of(choice, mlp, layer, catalog)
        u = streams.uniform("init", (layer.fan_in, layer.fan_out), layer.number)
        own.weight[:] = drawn.init.weights(u)
        own.weight[:] *= drawn.scale
        if own.bias is not None and isinstance(drawn.bias, Init):
            u = streams.uniform("init-bias", (layer.fan_out,), layer.number)
            own.bias[:] = drawn.bias.quantile(u, layer.fan_in, layer.fan_out)
        elif own.bias is not None:
            own.bias[:] = drawn.bias
        for name, tensor in layer.norm.tensors(layer.units, mlp.depth).items():
            own.norm[name][...] = tensor.values(streams, f"layer-{name}", layer.number)
    for number, (block, own_block) in enumerate(zip(mlp.blocks, p.blocks, strict=True), 1):
        for name, tensor in mlp.skip.tensors(block[-1].fan_out, mlp.depth).items():
            own_block[name][...] = tensor.values(streams, f"block-{name}", number)
        if PROJECTION in own_block and block[0].fan_in != block[-1].fan_out:
            u = streams.uniform("init-projection", own_block[PROJECTION].shape, number)
            own_block[PROJECTION][...] = mlp.projection_scale * mlp.projection.weights(u)
    return flat


@dataclass(frozen=True)
class LayerInit:
    """What one layer is drawn from."""

    init: Init
    scale: float
    bias: Init | float

    @staticmethod
    def of(choice: InitChoice, mlp: MLP, layer: Layer, catalog: Catalog) -> LayerInit:
        """By the layer's place: stem, blocks or head."""
        place = _place_of(mlp, layer)
        own = choice.at(place.where)
        init: Init = own.build(catalog)
        bias: Init | float
        if own.bias == "same":
            bias = init
        elif isinstance(own.bias, BiasChoice):
            bias = own.bias.build(catalog)
        else:
            bias = 0.0 if own.bias == "zeros" else float(own.bias)
        return LayerInit(init, scale_value(own.scale, mlp.depth) * init.factor(place), bias)


def _place_of(mlp: MLP, layer: Layer) -> Place:
    if not layer.in_block:
        return Place("stem" if layer is mlp.stem else "head", blocks=len(mlp.blocks), depth=mlp.depth)
    block = next(block for block in mlp.blocks if layer in block)
    return Place("blocks", 1 + block.index(layer), len(block), len(mlp.blocks), mlp.depth)


def check_bias(choice: InitChoice, catalog: Catalog) -> None:
    """Biases need a distribution of single entries."""
    for own, where in ((choice, ""), (choice.stem, "stem."), (choice.head, "head.")):
        if own is None or not (own.bias == "same" or isinstance(own.bias, BiasChoice)):
            continue
        named = own if own.bias == "same" else own.bias
        init: Init = named.build(catalog)
        if not init.elementwise:
            said = "'same'" if own.bias == "same" else "a bias"
            raise StudyError(
                f"{said} has no meaning for the init {init.name!r}; use zeros", where=f"model.init.{where}bias"
            )

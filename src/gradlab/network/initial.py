"""Initial parameters, drawn once and handed to any engine.

Each layer's matrix comes from a stream keyed by layer number and shape and is scaled afterwards, so arms
whose layer has the same shape start from the same draw. Draws that a norm or a skip asks for have streams of
their own, keyed by layer or block and by name, so they change no other draw. So has the projection of a skip.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import StudyError
from gradlab.network.inits import Init
from gradlab.network.mlp import MLP, PROJECTION
from gradlab.parts import Catalog
from gradlab.spec.base import scale_value
from gradlab.spec.choice import InitChoice
from gradlab.streams import Streams


def initial_parameters(mlp: MLP, choice: InitChoice, streams: Streams, catalog: Catalog) -> NDArray[np.float64]:
    """The flat vector before training, in float64: weights by the init, tensors of norms and skips as they declare."""
    init: Init = choice.build(catalog)
    check_bias(init, choice)
    scale = scale_value(choice.scale, mlp.depth)
    flat = np.zeros(mlp.layout.size)
    p = mlp.layout.windows(flat)
    for layer, own in zip(mlp.layers, p.layers, strict=True):
        u = streams.uniform("init", (layer.fan_in, layer.fan_out), layer.number)
        own.weight[:] = init.weights(u)
        if choice.scale_on == "all" or layer.in_block:
            own.weight[:] *= scale
        if own.bias is not None and choice.bias == "same":
            u = streams.uniform("init-bias", (layer.fan_out,), layer.number)
            own.bias[:] = init.quantile(u, layer.fan_in, layer.fan_out)
        for name, tensor in layer.norm.tensors(layer.units, mlp.depth).items():
            own.norm[name][...] = tensor.values(streams, f"layer-{name}", layer.number)
    for number, (block, own_block) in enumerate(zip(mlp.blocks, p.blocks, strict=True), 1):
        for name, tensor in mlp.skip.tensors(block[-1].fan_out, mlp.depth).items():
            own_block[name][...] = tensor.values(streams, f"block-{name}", number)
        if PROJECTION in own_block and block[0].fan_in != block[-1].fan_out:
            u = streams.uniform("init-projection", own_block[PROJECTION].shape, number)
            own_block[PROJECTION][...] = mlp.projection_scale * mlp.projection.weights(u)
    return flat


def check_bias(init: Init, choice: InitChoice) -> None:
    """`bias: same` needs a distribution of single entries."""
    if choice.bias == "same" and not init.elementwise:
        raise StudyError(f"'same' has no meaning for the init {init.name!r}; use zeros", where="model.init.bias")

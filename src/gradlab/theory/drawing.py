"""Initial networks in large numbers, for simulations: the same distributions as a trial's, drawn faster.

A trial draws every weight as F⁻¹(u) in float64. Here F⁻¹ is tabulated at the midpoints of 65,536 equally likely
intervals, and a weight is a random entry of that table: its variance is right to 10⁻³, and any init whose entries are
independent works. Where they are not, or a part draws tensors of its own, a network is drawn as a trial draws it.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.initial import initial_parameters
from gradlab.network.inits.base import Init
from gradlab.network.mlp import MLP
from gradlab.parts import Catalog
from gradlab.spec.base import scale_value
from gradlab.spec.choice import InitChoice
from gradlab.streams import Streams

Array = NDArray[Any]
LEVELS = 2**16


class InitialNetworks:
    """Draws the flat parameters of one architecture, a new network for every number."""

    def __init__(self, mlp: MLP, choice: InitChoice, catalog: Catalog, root: int, dtype: Any) -> None:
        self._mlp, self._choice, self._catalog, self._root, self._dtype = mlp, choice, catalog, root, dtype
        self._init: Init = choice.build(catalog)
        self._constant: Array | None = None

    def draw(self, number: int) -> Array:
        """The parameters of network `number`."""
        if self._constant is None or not self._is_plain:
            flat = initial_parameters(self._mlp, self._choice, Streams(self._root, number), self._catalog)
            self._constant = flat.astype(self._dtype)
            return self._constant.copy()
        flat, generator = self._constant.copy(), np.random.default_rng((self._root, number))
        scale = scale_value(self._choice.scale, self._mlp.depth)
        for layer, own in zip(self._mlp.layers, self._mlp.layout.windows(flat).layers, strict=True):
            table = tabulate_quantiles(self._init, layer.fan_in, layer.fan_out, np.dtype(self._dtype).name)
            scaled = self._choice.scale_on == "all" or layer.in_block
            np.take(table, _levels(generator, own.weight.shape), out=own.weight)
            if scaled and scale != 1.0:
                own.weight[:] *= table.dtype.type(scale)
            if own.bias is not None and self._choice.bias == "same":
                own.bias[:] = table[_levels(generator, own.bias.shape)]
        return flat

    @cached_property
    def _is_plain(self) -> bool:
        """Whether only weights and biases are random, entry by entry."""
        if not self._init.elementwise or type(self._init).weights is not Init.weights:
            return False
        tensors = [tensor for layer in self._mlp.layers for tensor in layer.norm.tensors(1, 1).values()]
        for block in self._mlp.blocks:
            if block[0].fan_in != block[-1].fan_out:
                return False
            tensors += self._mlp.skip.tensors(block[-1].fan_out, self._mlp.depth).values()
        return not any(callable(tensor.start) for tensor in tensors)


def _levels(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return generator.integers(0, LEVELS, shape, np.uint16)


@lru_cache(maxsize=32)
def tabulate_quantiles(init: Init, fan_in: int, fan_out: int, dtype: str) -> Array:
    """F⁻¹ at the midpoints of equally likely intervals."""
    table = init.quantile((np.arange(LEVELS) + 0.5) / LEVELS, fan_in, fan_out).astype(dtype)
    table.setflags(write=False)
    return table

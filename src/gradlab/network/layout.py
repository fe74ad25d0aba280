"""Where each parameter lies in the one flat vector that every engine and optimizer works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import PartError, shortened
from gradlab.streams import Streams

# What a skip or a norm learns: it declares its tensors, and layout, start, engines, audit and files follow.

Array = NDArray[Any]
Draw = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From uniform numbers in (0, 1) to values of the same shape: an inverse CDF, as `Init.weights` is for a matrix."""
TAKEN = ("weight", "bias")
"""Names of a layer's own tensors."""
PROJECTION = "projection"
"""The name of the matrix in a skip whose block changes the width."""


@dataclass(frozen=True)
class Tensor:
    """One learned tensor: its shape, its values before training, and what to call it."""

    shape: tuple[int, ...]
    """`()` for a single number."""
    start: float | Draw = 0.0
    """One number for every entry, or a function that turns uniform numbers into the values."""
    noun: str = ""
    """What the entries are, in the plural, for the audit (`norm gains`); the kind of part and the name if left out."""

    def values(self, streams: Streams, name: str, owner: int) -> NDArray[np.float64]:
        """The values before training; `name` and `owner` key the stream of a draw."""
        if callable(self.start):
            return self.start(streams.uniform(f"init-{name}", self.shape, owner))
        return np.full(self.shape, self.start)


def checked(part: Any, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The tensors that a part declares; a `PartError` if one cannot stand beside the layer's own."""
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not name.isidentifier() or name in TAKEN:
            raise PartError(
                f"the {part.part} {part.name!r} calls a tensor {shortened(name)}; use letters, digits and _, and "
                f"none of {', '.join(TAKEN)}"
            )
        if not isinstance(tensor, Tensor):
            raise PartError(f"the {part.part} {part.name!r} declares {name!r} as {shortened(tensor)}, not as a Tensor")
    return tensors


# Where each parameter lies in the one flat vector that every engine and optimizer works on.

Named = Mapping[str, Array]
"""Tensors of a norm or a skip by the names under which it declares them."""


@dataclass(frozen=True)
class Slot:
    """One parameter tensor and its place."""

    group: Literal["layer", "block"]
    """What it belongs to: a layer (weight, bias, the norm's tensors) or a block (the skip's tensors)."""
    owner: int
    """The number of that layer or block, from 1."""
    role: str
    """`weight`, `bias`, or the name that the norm or the skip gives it."""
    shape: tuple[int, ...]
    noun: str
    """What its entries are, in the plural: `weights`, `norm gains`."""
    start: int = 0

    @property
    def name(self) -> str:
        """Like `layer3.weight` or `block2.alpha`."""
        return f"{self.group}{self.owner}.{self.role}"

    @property
    def stop(self) -> int:
        """One behind the last entry."""
        return self.start + prod(self.shape)

    def view(self, flat: Array) -> Array:
        """The tensor as a window on the flat vector: writing to one writes to the other."""
        return flat[self.start : self.stop].reshape(self.shape)


@dataclass(frozen=True)
class LayerParameters:
    """What belongs to one weight matrix."""

    weight: Array
    bias: Array | None
    """None in a network without biases."""
    norm: Named
    """The norm's tensors."""


@dataclass(frozen=True)
class Parameters:
    """Windows on a flat vector, by layer and by block."""

    layers: tuple[LayerParameters, ...]
    blocks: tuple[Named, ...]
    """The skip's tensors, one mapping per block."""

    def zeros(self) -> Parameters:
        """Tensors of the same shapes, all 0, on no common vector."""
        return Parameters(
            tuple(
                LayerParameters(
                    np.zeros_like(own.weight), None if own.bias is None else np.zeros_like(own.bias), _zeros(own.norm)
                )
                for own in self.layers
            ),
            tuple(_zeros(own) for own in self.blocks),
        )


def _zeros(named: Named) -> Named:
    return {name: np.zeros_like(values) for name, values in named.items()}


@dataclass(frozen=True)
class Layout:
    """All slots in order: layer by layer (weight, bias, the norm's), then block by block (the skip's)."""

    slots: tuple[Slot, ...]
    blocks: int = 0
    """How many blocks the network has, with or without tensors."""

    @staticmethod
    def of(slots: Sequence[Slot], blocks: int) -> Layout:
        """Lay tensors out one behind the other."""
        placed: list[Slot] = []
        for slot in slots:
            start = placed[-1].stop if placed else 0
            placed.append(Slot(slot.group, slot.owner, slot.role, slot.shape, slot.noun, start))
        return Layout(tuple(placed), blocks)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.slots[-1].stop

    def named(self, flat: Array) -> dict[str, Array]:
        """Windows by name."""
        return {slot.name: slot.view(flat) for slot in self.slots}

    def windows(self, flat: Array) -> Parameters:
        """Windows by layer and by block."""
        layers: dict[int, dict[str, Array]] = {}
        blocks: list[dict[str, Array]] = [{} for _ in range(self.blocks)]
        for slot in self.slots:
            own = layers.setdefault(slot.owner, {}) if slot.group == "layer" else blocks[slot.owner - 1]
            own[slot.role] = slot.view(flat)
        return Parameters(
            tuple(LayerParameters(own.pop("weight"), own.pop("bias", None), own) for own in layers.values()),
            tuple(blocks),
        )

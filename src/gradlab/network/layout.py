"""Where each parameter lies in the one flat vector that every engine and optimizer works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
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

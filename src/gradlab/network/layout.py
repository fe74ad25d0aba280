"""Where each parameter lies in the one flat vector that every engine and optimizer works on."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from numpy.typing import NDArray

Array = NDArray[Any]
Role = Literal["weight", "bias", "gain", "shift", "alpha"]


@dataclass(frozen=True)
class Slot:
    """One parameter tensor: `owner` is the layer number (from 1), or the block number for an α."""

    role: Role
    owner: int
    shape: tuple[int, ...]
    start: int

    @property
    def name(self) -> str:
        """Like `layer3.weight` or `block2.alpha`."""
        return f"{'block' if self.role == 'alpha' else 'layer'}{self.owner}.{self.role}"

    @property
    def stop(self) -> int:
        """One behind the last entry."""
        return self.start + prod(self.shape)

    def view(self, flat: Array) -> Array:
        """The tensor as a window on the flat vector: writing to one writes to the other."""
        return flat[self.start : self.stop].reshape(self.shape)


@dataclass(frozen=True)
class LayerParameters:
    """What belongs to one weight matrix; None where the network has no such tensor."""

    weight: Array
    bias: Array | None
    gain: Array | None
    shift: Array | None


@dataclass(frozen=True)
class Parameters:
    """Windows on a flat vector, by layer; `alphas` (one per block) only where they are learned."""

    layers: tuple[LayerParameters, ...]
    alphas: Array | None


@dataclass(frozen=True)
class Layout:
    """All slots in order: layer by layer, then the α of all blocks side by side."""

    slots: tuple[Slot, ...]

    @staticmethod
    def of(shapes: list[tuple[Role, int, tuple[int, ...]]]) -> Layout:
        """Lay (role, owner, shape) out one behind the other."""
        slots: list[Slot] = []
        for role, owner, shape in shapes:
            slots.append(Slot(role, owner, shape, slots[-1].stop if slots else 0))
        return Layout(tuple(slots))

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.slots[-1].stop

    def named(self, flat: Array) -> dict[str, Array]:
        """Windows by name."""
        return {slot.name: slot.view(flat) for slot in self.slots}

    def windows(self, flat: Array) -> Parameters:
        """Windows by layer."""
        by_layer: dict[int, dict[str, Array]] = {}
        alphas = [slot for slot in self.slots if slot.role == "alpha"]
        for slot in self.slots:
            if slot.role != "alpha":
                by_layer.setdefault(slot.owner, {})[slot.role] = slot.view(flat)
        layers = tuple(
            LayerParameters(p["weight"], p.get("bias"), p.get("gain"), p.get("shift")) for p in by_layer.values()
        )
        return Parameters(layers, flat[alphas[0].start : alphas[-1].stop] if alphas else None)

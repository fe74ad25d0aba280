"""What a skip or a norm learns: it declares its tensors, and layout, start, engines, audit and files follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import PartError, shortened
from gradlab.streams import Streams

Array = NDArray[Any]
Draw = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From uniform numbers in (0, 1) to values of the same shape: an inverse CDF, as `Init.weights` is for a matrix."""
TAKEN = ("weight", "bias")
"""Names of a layer's own tensors."""


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

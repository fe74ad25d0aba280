"""What a norm is: it stands before the activation and has an affine gain (and perhaps a shift) per unit."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from numpy.typing import NDArray

from gradlab.parts import Part

Array = NDArray[Any]
Running = tuple[Array, Array] | None
"""Running mean and variance of a batch norm; None for norms without a memory."""


class Norm(Part):
    """y = g ⊙ x̂ + s, where x̂ is the normalized input. Shapes: x (n, h), g and s (h,)."""

    part: ClassVar[str] = "norm"
    has_gain: ClassVar[bool] = True
    has_shift: ClassVar[bool] = True
    has_memory: ClassVar[bool] = False

    @abstractmethod
    def forward(
        self, x: Array, gain: Array, shift: Array, running: Running, training: bool
    ) -> tuple[Array, Any, Running]:
        """Y, what backward needs, and the running statistics after this batch."""

    @abstractmethod
    def backward(self, dy: Array, gain: Array, cache: Any) -> tuple[Array, Array | None, Array | None]:
        """(dx, dg, ds) of a training-mode forward."""

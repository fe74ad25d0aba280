"""What an activation is: an elementwise function and its derivative."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from numpy.typing import NDArray

from gradlab.parts import Part

Array = NDArray[Any]


class Activation(Part):
    """y = f(x), elementwise. Backward: dx = dy · f'(x). NaN goes through as NaN."""

    part: ClassVar[str] = "activation"

    @abstractmethod
    def forward(self, x: Array) -> Array:
        """f(x), in the dtype of x."""

    @abstractmethod
    def slope(self, x: Array, y: Array) -> Array:
        """f'(x), where y = f(x) is already known. Same shape and dtype as x."""

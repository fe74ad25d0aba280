"""What an activation is: an elementwise function and its derivative."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from numpy.typing import NDArray

from gradlab.parts import Part

Array = NDArray[Any]


class Activation(Part):
    """y = f(x), elementwise. Backward: dx = dy · f'(x).

    Both methods must be deterministic and must not write to the arrays they are given. NaN has to give NaN: a part that
    hid it would hide divergence.
    """

    part: ClassVar[str] = "activation"

    @abstractmethod
    def forward(self, x: Array) -> Array:
        """f(x).

        x: (n, h), float32 or float64. Returns a new array (or x itself) of the same shape and dtype.
        """

    @abstractmethod
    def slope(self, x: Array, y: Array) -> Array:
        """f'(x).

        x: what `forward` was given. y: what it returned, to save computing it again.
        Returns an array of the same shape and dtype. At a kink, one of the two slopes.
        """

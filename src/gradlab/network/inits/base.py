"""What an init is: from uniform numbers to a weight matrix, through the inverse CDF of its distribution."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gradlab.parts import Part

Draw = NDArray[np.float64]


class Init(Part):
    """W = F⁻¹(u) elementwise, u ~ U(0, 1) of shape (fan_in, fan_out).

    An init draws nothing itself: it is given uniform numbers, the same ones for every init and every arm, so arms start
    from paired draws. All numbers are float64, converted to the trial's precision afterwards. Methods must be
    deterministic and must not write to u. The study's `scale` is applied afterwards.
    """

    part: ClassVar[str] = "init"
    elementwise: ClassVar[bool] = True
    """Entries are independent, so biases can be drawn from the same distribution (`bias: same`)."""

    @abstractmethod
    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u), the inverse CDF: finite, and nowhere falling in u.

        u: uniform numbers in the open interval (0, 1), any shape. fan_in, fan_out: of the layer.
        Returns an array of u's shape.
        """

    def weights(self, u: Draw) -> Draw:
        """The weight matrix of a layer: `quantile` of every entry, unless overridden (and `elementwise` set to false).

        u: (fan_in, fan_out). Returns the same shape; the network computes x @ W, so columns are output units.
        """
        fan_in, fan_out = u.shape
        return self.quantile(u, fan_in, fan_out)

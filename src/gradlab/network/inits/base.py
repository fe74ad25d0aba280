"""What an init is: from uniform numbers to a weight matrix, through the inverse CDF of its distribution."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gradlab.parts import Part

Draw = NDArray[np.float64]


class Init(Part):
    """W = F⁻¹(u) elementwise, u ~ U(0, 1) of shape (fan_in, fan_out)."""

    part: ClassVar[str] = "init"
    elementwise: ClassVar[bool] = True
    """Entries are independent, so biases can be drawn from the same distribution (`bias: same`)."""

    @abstractmethod
    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u) for a layer with these fans."""

    def weights(self, u: Draw) -> Draw:
        """The weight matrix of a layer whose draw is u."""
        fan_in, fan_out = u.shape
        return self.quantile(u, fan_in, fan_out)

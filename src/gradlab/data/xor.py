"""Exclusive or: the class is the sign of a product."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradlab.data.plane import Plane, Points


class Xor(Plane):
    """Class 0 where x₁ x₂ > 0, class 1 where it is below: four squares, two of each class."""

    name = "xor"

    def place(self, u: Points, label: NDArray[np.int64]) -> Points:
        """In the square from −1.5 to 1.5; a point's class chooses the sign of its second coordinate."""
        first = 3 * u[:, 0] - 1.5
        return np.stack([first, 1.5 * u[:, 1] * np.sign(first) * (1 - 2 * label)], axis=1)

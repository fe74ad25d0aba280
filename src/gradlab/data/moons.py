"""Moons: two half circles that interlock."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradlab.data.plane import Plane, Points


class Moons(Plane):
    """Class 0 on an upper half circle, class 1 on a lower one, shifted into it."""

    name = "moons"

    def place(self, u: Points, label: NDArray[np.int64]) -> Points:
        """By angle; the center of both is the origin."""
        angle, side = np.pi * u[:, 0], 1 - 2 * label
        return np.stack([side * (np.cos(angle) - 0.5), side * (np.sin(angle) - 0.25)], axis=1)

"""Circles: one class around the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradlab.data.plane import Plane, Points


class Circles(Plane):
    """Class 0 on a circle of radius 0.5, class 1 on one of radius 1.5: no straight line separates them."""

    name = "circles"

    def place(self, u: Points, label: NDArray[np.int64]) -> Points:
        """By angle."""
        angle, radius = 2 * np.pi * u[:, 0], 0.5 + label
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)

"""Spirals: two arms that wind around each other."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.data.plane import Plane, Points


class Spirals(Plane):
    """Class 1 is class 0 turned by half a turn; the radius grows with the angle, from 0 to 1.5."""

    name = "spirals"

    noise: Annotated[float, Field(ge=0)] = 0.05
    """Standard deviation of what is added to both coordinates."""
    turns: Annotated[float, Field(gt=0, le=20)] = 1.5
    """How often each arm winds around the center: the more, the harder."""

    def place(self, u: Points, label: NDArray[np.int64]) -> Points:
        """Evenly along the arm: the square root, because its outer part is longer."""
        along = np.sqrt(u[:, 0])
        angle = 2 * np.pi * self.turns * along + np.pi * label
        radius = 1.5 * along
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)

"""Mean squared error."""

from __future__ import annotations

import numpy as np

from gradlab.network.losses.base import Array, Loss


class Mse(Loss):
    """L = mean over samples and outputs of (output − target)²."""

    name = "mse"
    targets = "values"

    def value(self, output: Array, target: Array) -> float:
        """L."""
        return self.value_and_gradient(output, target)[0]

    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """dL/d output = 2 (output − target)/(n k)."""
        error = output - target
        return float(np.mean(error * error)), error * (2 / error.size)

"""The mean of the outputs, whatever the target: every gradient is that of the output itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlab.network.losses.base import Loss


class MeanOutput(Loss):
    """L = mean o, dL/do = 1/(n k): with one output, the gradient at the output is 1 whatever the output is.

    Mean squared error scales every gradient with the size of the output; this one does not.
    """

    name = "mean_output"
    targets = "values"
    for_training = False

    def value(self, output: Any, target: Any) -> float:
        """In float64."""
        return float(output.mean(dtype=np.float64))

    def value_and_gradient(self, output: Any, target: Any) -> tuple[float, Any]:
        """The gradient does not depend on the output."""
        return self.value(output, target), np.full_like(output, 1 / output.size)

"""ReZero: a learned α that starts at 0, so that the network starts as the identity."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlab.network.skips.base import Array, Skip


class ReZero(Skip):
    """y = x + α F(x), one learned α per block."""

    name = "rezero"
    learned = True
    formula = "x + α f(Wx + b), α learned from 0"
    start: float = 0.0

    def alpha(self, depth: int) -> float:
        """Where α starts."""
        return self.start

    def combine(self, x: Array, branch: Array, alpha: Any) -> Array:
        """x + α F."""
        return x + alpha * branch

    def backward(self, dy: Array, branch: Array, alpha: Any) -> tuple[Array | None, Array, Any]:
        """dx = dy along the skip, dF = α dy, dα = ⟨dy, F⟩."""
        return dy, alpha * dy, np.vdot(dy, branch)

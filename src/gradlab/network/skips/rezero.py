"""ReZero: a learned α that starts at 0, so that the network starts as the identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradlab.network.skips.base import Array, Gradients, Skip
from gradlab.network.tensors import Tensor


class ReZero(Skip):
    """y = x + α F(x), one learned α per block."""

    name = "rezero"
    called = "ReZero skip"
    formula = "x + α f(Wx + b), α learned from 0"
    start: float = 0.0

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """α."""
        return {"alpha": Tensor((), self.start, "skip scales")}

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + α F."""
        return x + p["alpha"] * branch, branch

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dx = dy along the skip, dF = α dy, dα = ⟨dy, F⟩."""
        return dy, p["alpha"] * dy, {"alpha": np.vdot(dy, cache)}

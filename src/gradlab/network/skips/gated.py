"""Gated branch: a learned factor per unit in front of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradlab.network.skips.base import Array, Gradients, Skip
from gradlab.network.tensors import Tensor


class GatedSkip(Skip):
    """y = x + g ⊙ F(x), one learned g per unit of every block."""

    name = "gated"
    formula = "x + g f(Wx + b), g learned per unit"
    start: float = 0.0
    """Where every entry of g starts; from 0 the network starts as the identity, as with ReZero."""

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """g."""
        return {"gate": Tensor((width,), self.start, "gates")}

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + g ⊙ F."""
        return x + p["gate"] * branch, branch

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dx = dy along the skip, dF = g ⊙ dy, dg = Σ dy ⊙ F."""
        return dy, p["gate"] * dy, {"gate": np.sum(dy * cache, 0)}

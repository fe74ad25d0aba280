"""No normalization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.network.norms.base import Array, Gradients, Norm, Running


class NoNorm(Norm):
    """y = x."""

    name = "none"

    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """x itself."""
        return x, None, running

    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """dy itself."""
        return dy, {}

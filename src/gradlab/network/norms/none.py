"""No normalization."""

from __future__ import annotations

from typing import Any

from gradlab.network.norms.base import Array, Norm, Running


class NoNorm(Norm):
    """y = x."""

    name = "none"
    has_gain = False
    has_shift = False

    def forward(
        self, x: Array, gain: Array, shift: Array, running: Running, training: bool
    ) -> tuple[Array, Any, Running]:
        """x itself."""
        return x, None, running

    def backward(self, dy: Array, gain: Array, cache: Any) -> tuple[Array, Array | None, Array | None]:
        """Dy itself."""
        return dy, None, None

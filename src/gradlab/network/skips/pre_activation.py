"""Pre-activation skip (the second ResNet): the stream is never activated."""

from __future__ import annotations

from typing import Any

from gradlab.network.skips.base import Array, Skip


class PreActivation(Skip):
    """y = x + F(x), with layers that activate first: F(x) = W f(x) + b."""

    name = "pre_activation"
    place = "before"
    formula = "x + W f(x) + b"

    def combine(self, x: Array, branch: Array, alpha: Any) -> Array:
        """x + F."""
        return x + branch

    def backward(self, dy: Array, branch: Array, alpha: Any) -> tuple[Array | None, Array, Any]:
        """dx = dy along the skip, dF = dy."""
        return dy, dy, 0.0

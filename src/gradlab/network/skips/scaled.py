"""Scaled branch: a fixed α in front of it."""

from __future__ import annotations

from typing import Any

from gradlab.network.skips.base import Array, Skip
from gradlab.spec.base import Scale, scale_value


class ScaledSkip(Skip):
    """y = x + α F(x), α fixed."""

    name = "scaled"
    formula = "x + α f(Wx + b)"
    scale: Scale = "1/sqrt(depth)"

    def alpha(self, depth: int) -> float:
        """The number that `scale` stands for."""
        return scale_value(self.scale, depth)

    def combine(self, x: Array, branch: Array, alpha: Any) -> Array:
        """x + α F."""
        return x + alpha * branch

    def backward(self, dy: Array, branch: Array, alpha: Any) -> tuple[Array | None, Array, Any]:
        """dx = dy along the skip, dF = α dy."""
        return dy, alpha * dy, 0.0

"""Scaled branch: a fixed α in front of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.network.skips.base import Array, Gradients, Skip
from gradlab.spec.base import Scale, scale_value


class ScaledSkip(Skip):
    """y = x + α F(x), α fixed."""

    name = "scaled"
    called = "scaled skip"
    formula = "x + α f(Wx + b)"
    scale: Scale = "1/sqrt(depth)"

    def constants(self, width: int, depth: int) -> Mapping[str, float]:
        """α: the number that `scale` stands for."""
        return {"alpha": scale_value(self.scale, depth)}

    def written(self, width: int, depth: int) -> str:
        """With the number."""
        return self.formula.replace("α", f"{scale_value(self.scale, depth):.4g}")

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + α F."""
        return x + p["alpha"] * branch, None

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dx = dy along the skip, dF = α dy."""
        return dy, p["alpha"] * dy, {}

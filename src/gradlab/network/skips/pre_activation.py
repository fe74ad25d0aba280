"""Pre-activation skip (the second ResNet): the stream is never activated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.network.skips.base import Array, Gradients, Skip


class PreActivation(Skip):
    """y = x + F(x), with layers that activate first: F(x) = W f(x) + b."""

    name = "pre_activation"
    called = "pre-activation skip"
    place = "before"
    formula = "x + W f(x) + b"

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + F."""
        return x + branch, None

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dx = dy along the skip, dF = dy."""
        return dy, dy, {}

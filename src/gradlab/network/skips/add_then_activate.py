"""Add, then activate: the sum stands inside the last activation (the first ResNet)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.network.skips.base import Array, Gradients, Skip


class AddThenActivate(Skip):
    """y = f(x + F(x)), with F's last layer not yet activated."""

    name = "add_then_activate"
    called = "skip, then activation"
    place = "inside"
    formula = "f(Wx + b + x)"

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + F; the network then applies f."""
        return x + branch, None

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dy is the gradient of the sum: it goes to both."""
        return dy, dy, {}

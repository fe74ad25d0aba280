"""Add, then activate: the sum stands inside the last activation (the first ResNet)."""

from __future__ import annotations

from typing import Any

from gradlab.network.skips.base import Array, Skip


class AddThenActivate(Skip):
    """y = f(x + F(x)), with F's last layer not yet activated."""

    name = "add_then_activate"
    place = "inside"
    formula = "f(Wx + b + x)"

    def combine(self, x: Array, branch: Array, alpha: Any) -> Array:
        """x + F; the network then applies f."""
        return x + branch

    def backward(self, dy: Array, branch: Array, alpha: Any) -> tuple[Array | None, Array, Any]:
        """dy is the gradient of the sum: it goes to both."""
        return dy, dy, 0.0

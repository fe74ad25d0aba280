"""Identity skip."""

from __future__ import annotations

from typing import Any

from gradlab.network.skips.base import Array, Skip


class IdentitySkip(Skip):
    """y = x + F(x), with F ending in its activation."""

    name = "identity"
    formula = "x + f(Wx + b)"

    def combine(self, x: Array, branch: Array, alpha: Any) -> Array:
        """x + F."""
        return x + branch

    def backward(self, dy: Array, branch: Array, alpha: Any) -> tuple[Array | None, Array, Any]:
        """dx = dy along the skip: the +1 of the chain rule. dF = dy."""
        return dy, dy, 0.0

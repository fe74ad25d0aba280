"""No skip: a plain network."""

from __future__ import annotations

from typing import Any

from gradlab.network.skips.base import Array, Skip


class NoSkip(Skip):
    """y = F(x): no skip."""

    name = "none"
    formula = "f(Wx + b)"

    def combine(self, x: Array, branch: Array, alpha: Any) -> Array:
        """The branch alone."""
        return branch

    def backward(self, dy: Array, branch: Array, alpha: Any) -> tuple[Array | None, Array, Any]:
        """Everything goes through the branch."""
        return None, dy, 0.0

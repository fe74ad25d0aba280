"""No skip: a plain network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.network.skips.base import Array, Gradients, Skip


class NoSkip(Skip):
    """y = F(x): no skip."""

    name = "none"
    formula = "f(Wx + b)"

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """The branch alone."""
        return branch, None

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """Everything goes through the branch."""
        return None, dy, {}

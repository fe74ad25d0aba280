"""Identity skip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.network.skips.base import Array, Gradients, Skip


class IdentitySkip(Skip):
    """y = x + F(x), with F ending in its activation."""

    name = "identity"
    formula = "x + f(Wx + b)"

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + F."""
        return x + branch, None

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dx = dy along the skip: the +1 of the chain rule. dF = dy."""
        return dy, dy, {}

"""He initialization, normal: keeps the variance through ReLU layers."""

from __future__ import annotations

from math import sqrt

from gradlab.network.inits.base import Draw, Init
from gradlab.streams import standard_normal


class HeNormal(Init):
    """W ~ N(0, 2/fan_in)."""

    name = "he_normal"
    called = "He init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return sqrt(2 / fan_in) * standard_normal(u)

"""Xavier (Glorot) initialization, normal."""

from __future__ import annotations

from math import sqrt

from gradlab.network.inits.base import Draw, Init
from gradlab.streams import standard_normal


class XavierNormal(Init):
    """W ~ N(0, 2/(fan_in + fan_out))."""

    name = "xavier_normal"
    called = "Xavier init (normal)"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return sqrt(2 / (fan_in + fan_out)) * standard_normal(u)

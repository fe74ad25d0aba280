"""LeCun initialization, normal: keeps the variance through linear layers."""

from __future__ import annotations

from math import sqrt

from gradlab.network.inits.base import Draw, Init
from gradlab.streams import standard_normal


class LecunNormal(Init):
    """W ~ N(0, 1/fan_in)."""

    name = "lecun_normal"
    called = "LeCun init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return sqrt(1 / fan_in) * standard_normal(u)

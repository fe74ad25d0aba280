"""Xavier (Glorot) initialization, uniform."""

from __future__ import annotations

from math import sqrt

from gradlab.network.inits.base import Draw, Init


class XavierUniform(Init):
    """W ~ U(−√(6/(fan_in + fan_out)), √(6/(fan_in + fan_out)))."""

    name = "xavier_uniform"
    called = "Xavier init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return sqrt(6 / (fan_in + fan_out)) * (2 * u - 1)

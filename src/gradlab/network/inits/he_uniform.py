"""He initialization, uniform."""

from __future__ import annotations

from math import sqrt

from gradlab.network.inits.base import Draw, Init


class HeUniform(Init):
    """W ~ U(−√(6/fan_in), √(6/fan_in))."""

    name = "he_uniform"
    called = "He init (uniform)"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return sqrt(6 / fan_in) * (2 * u - 1)

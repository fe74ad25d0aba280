"""Uniform initialization of a fixed range, whatever the fans."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gradlab.network.inits.base import Draw, Init


class Uniform(Init):
    """W ~ U(−a, a)."""

    name = "uniform"
    a: Annotated[float, Field(gt=0)] = 0.5

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return self.a * (2 * u - 1)

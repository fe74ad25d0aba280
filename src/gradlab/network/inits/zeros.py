"""All zeros."""

from __future__ import annotations

import numpy as np

from gradlab.network.inits.base import Draw, Init


class Zeros(Init):
    """W = 0."""

    name = "zeros"
    called = "zero init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """0 for every u."""
        return np.zeros_like(u)

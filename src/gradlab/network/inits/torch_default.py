"""What torch.nn.Linear starts from."""

from __future__ import annotations

from math import sqrt

from gradlab.network.inits.base import Draw, Init


class TorchDefault(Init):
    """W ~ U(−1/√fan_in, 1/√fan_in)."""

    name = "torch_default"
    called = "default init"

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """F⁻¹(u)."""
        return (2 * u - 1) / sqrt(fan_in)

"""Parts of a user's own, for the stored run `own-parts`."""

from __future__ import annotations

import numpy as np

from gradlab.network import Activation, Skip


class Bent(Activation):
    """f(x) = x + c·tanh(x)."""

    name = "bent"
    c: float = 0.5

    def forward(self, x):
        """X plus a bend."""
        return x + self.c * np.tanh(x)

    def slope(self, x, y):
        """1 + c (1 − tanh²)."""
        return 1 + self.c * (1 - np.tanh(x) ** 2)


class Half(Skip):
    """y = share·x + F(x)."""

    name = "half"
    formula = "share x + f(Wx + b)"
    share: float = 0.5

    def combine(self, x, branch, alpha):
        """A share of x, and the branch."""
        return self.share * x + branch

    def backward(self, dy, branch, alpha):
        """Along the skip, to the branch, to α."""
        return self.share * dy, dy, 0.0

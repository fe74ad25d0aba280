"""Orthogonal initialization: all singular values are 1."""

from __future__ import annotations

import numpy as np

from gradlab.errors import StudyError
from gradlab.network.inits.base import Draw, Init
from gradlab.streams import standard_normal


class Orthogonal(Init):
    """W = Q of the QR decomposition of a normal matrix, signs fixed so that W is Haar-distributed."""

    name = "orthogonal"
    elementwise = False

    def quantile(self, u: Draw, fan_in: int, fan_out: int) -> Draw:
        """Entries of an orthogonal matrix are not independent."""
        raise StudyError("'same' has no meaning for an orthogonal init; use zeros", where="model.init.bias")

    def weights(self, u: Draw) -> Draw:
        """Orthonormal columns, or rows where there are fewer of them."""
        normal = standard_normal(u)
        tall = normal if normal.shape[0] >= normal.shape[1] else normal.T
        q, r = np.linalg.qr(tall)
        q *= np.where(np.diag(r) < 0, -1.0, 1.0)
        return q if normal.shape[0] >= normal.shape[1] else q.T

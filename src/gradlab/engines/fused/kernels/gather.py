"""Gather rows of the data set into a batch.

X[i, :] = stored[rows[i], :] · factor + offset        uint8 pixels, scaled
X[i, :] = values[rows[i], :]                          numbers that need no scaling
"""

from __future__ import annotations

from gradlab.engines.fused.kernels.compiled import kernel, window


@kernel
def gather(data, rows, K, X, KP):
    """Copy rows of K numbers into rows of KP; padding columns are not written."""
    for i in range(len(rows)):
        x = window(X, i * KP)
        if len(data.pixels) > 0:
            p = window(data.pixels, rows[i] * K)
            for k in range(K):
                x[k] = X.dtype.type(p[k]) * data.factor + data.offset
        else:
            v = window(data.values, rows[i] * K)
            for k in range(K):
                x[k] = v[k]

"""Rows of the data set -> a batch.

X[i, :] = stored[rows[i], :] · factor + offset        uint8 pixels, scaled on the way
X[i, :] = values[rows[i], :]                          numbers that need no scaling
"""

from __future__ import annotations

from gradlab.engines.fused.kernels.compiled import kernel, window


@kernel
def gather(pixels, values, rows, K, factor, offset, X, KP):
    """Either `pixels` or `values` (both flat, rows of K numbers) holds the data; padding columns stay as they are."""
    for i in range(len(rows)):
        x = window(X, i * KP)
        if len(pixels) > 0:
            p = window(pixels, rows[i] * K)
            for k in range(K):
                x[k] = X.dtype.type(p[k]) * factor + offset
        else:
            v = window(values, rows[i] * K)
            for k in range(K):
                x[k] = v[k]

"""Loss, its gradient and the number of correct answers, in one pass.

    cross-entropy   L = mean_i (log Σ_j exp o_ij − o_i,t(i)),    dL/do = (softmax o − one-hot t)/n
    mse             L = mean (o − t)²,                           dL/do = 2 (o − t)/(n k)

Sums are taken in float64.
"""

from __future__ import annotations

import math

import numpy as np

from gradlab.engines.fused.kernels.compiled import kernel
from gradlab.engines.fused.kernels.supported import CROSS_ENTROPY


@kernel
def loss_and_gradient(data, O, rows, D, H, HP):
    """(L, correct answers); writes dL/do to D (padding 0). O and D have rows of HP numbers."""
    n = len(rows)
    total, correct = 0.0, 0
    if data.loss == CROSS_ENTROPY:
        for i in range(n):
            at, label = i * HP, data.labels[rows[i]]
            top, best = O[at], 0
            for j in range(1, H):
                # the first NaN wins, as in NumPy's argmax and max
                if O[at + j] > top or (O[at + j] != O[at + j] and top == top):
                    top, best = O[at + j], j
            s = 0.0
            for j in range(H):
                e = math.exp(O[at + j] - top)
                D[at + j] = e
                s += e
            total += math.log(s) - (O[at + label] - top)
            correct += best == label
            scale = 1.0 / (s * n)
            for j in range(H):
                D[at + j] = D[at + j] * scale
            D[at + label] -= 1.0 / n
            for j in range(H, HP):
                D[at + j] = 0
        return total / n, correct
    scale = 2.0 / (n * H)
    for i in range(n):
        at, row = i * HP, rows[i]
        for j in range(H):
            error = O[at + j] - data.targets[row, j]
            total += np.float64(error) * np.float64(error)
            D[at + j] = error * scale
        for j in range(H, HP):
            D[at + j] = 0
    return total / (n * H), 0

"""Softmax cross-entropy on logits."""

from __future__ import annotations

import numpy as np

from gradlab.network.losses.base import Array, Loss


class CrossEntropy(Loss):
    """L = mean over samples of −log softmax(output)[target]."""

    name = "cross_entropy"
    targets = "classes"

    def value(self, output: Array, target: Array) -> float:
        """L, by log-sum-exp: shifted by the row's maximum, so that exp cannot overflow."""
        shifted = output - output.max(1, keepdims=True)
        picked = shifted[np.arange(len(target)), target]
        return float(np.mean(np.log(np.exp(shifted).sum(1)) - picked))

    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """dL/d output = (softmax(output) − one-hot(target))/n."""
        rows = np.arange(len(target))
        shifted = output - output.max(1, keepdims=True)
        exponential = np.exp(shifted)
        total = exponential.sum(1, keepdims=True)
        loss = float(np.mean(np.log(total[:, 0]) - shifted[rows, target]))
        gradient = exponential / total
        gradient[rows, target] -= 1
        gradient /= len(target)
        return loss, gradient

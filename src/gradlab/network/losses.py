"""What a loss is: a number from outputs and targets, and its gradient with respect to the outputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.parts import Part

Array = NDArray[Any]


class Loss(Part):
    """L(output, target), the mean over the batch.

    output: (n, k), float32 or float64. target: class numbers (n,) or values (n, k), as `targets` says. Methods must be
    deterministic and must not write to either. A loss that is not finite ends the trial as diverged: do not hide it.
    """

    part: ClassVar[str] = "loss"
    targets: ClassVar[Literal["classes", "values"]]
    """What it compares outputs with: class numbers (n,) or real values of the outputs' shape (n, k)."""
    for_training: ClassVar[bool] = True
    """Whether it can be minimized, and so be suggested."""

    @abstractmethod
    def value(self, output: Array, target: Array) -> float:
        """L, as a Python float; the same number as `value_and_gradient` gives. Used for evaluation."""

    @abstractmethod
    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """(L, dL/d output): the gradient has the shape and dtype of output, divided by n like the mean."""


class Mse(Loss):
    """L = mean over samples and outputs of (output − target)²."""

    name = "mse"
    targets = "values"

    def value(self, output: Array, target: Array) -> float:
        """L."""
        return self.value_and_gradient(output, target)[0]

    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """dL/d output = 2 (output − target)/(n k)."""
        error = output - target
        return float(np.mean(error * error)), error * (2 / error.size)


class CrossEntropy(Loss):
    """L = mean over samples of −Σ q log softmax(output), q = (1 − ε) one-hot(target) + ε/k; ε is `label_smoothing`."""

    name = "cross_entropy"
    targets = "classes"
    later = ("label_smoothing",)
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """ε: the share of the target that is spread over all k classes."""

    def value(self, output: Array, target: Array) -> float:
        """L, by log-sum-exp: shifted by the row's maximum, so that exp cannot overflow."""
        shifted = output - output.max(1, keepdims=True)
        return float(np.mean(np.log(np.exp(shifted).sum(1)) - self._expected(shifted, target)))

    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """dL/d output = (softmax(output) − q)/n."""
        rows = np.arange(len(target))
        shifted = output - output.max(1, keepdims=True)
        exponential = np.exp(shifted)
        total = exponential.sum(1, keepdims=True)
        loss = float(np.mean(np.log(total[:, 0]) - self._expected(shifted, target)))
        gradient = exponential / total
        gradient[rows, target] -= 1 - self.label_smoothing
        if self.label_smoothing:
            gradient -= self.label_smoothing / output.shape[1]
        gradient /= len(target)
        return loss, gradient

    def _expected(self, shifted: Array, target: Array) -> Array:
        """Σ q · output, row by row."""
        picked: Array = shifted[np.arange(len(target)), target]
        if not self.label_smoothing:
            return picked
        return (1 - self.label_smoothing) * picked + self.label_smoothing * shifted.mean(1)


class MeanOutput(Loss):
    """L = mean o, dL/do = 1/(n k): with one output, the gradient at the output is 1 whatever the output is.

    Mean squared error scales every gradient with the size of the output; this one does not.
    """

    name = "mean_output"
    targets = "values"
    for_training = False

    def value(self, output: Any, target: Any) -> float:
        """In float64."""
        return float(output.mean(dtype=np.float64))

    def value_and_gradient(self, output: Any, target: Any) -> tuple[float, Any]:
        """The gradient does not depend on the output."""
        return self.value(output, target), np.full_like(output, 1 / output.size)

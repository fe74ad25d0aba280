"""What a loss is: a number from outputs and targets, and its gradient with respect to the outputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.errors import StudyError
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

    def outputs(self, width: int) -> int:
        """How many outputs a network needs for a task of `width` classes or values; a `StudyError` if none fit."""
        return width

    def class_outputs(self, output: Array) -> Array:
        """One number per class, (n, classes), whose largest is the answer and whose softmax is the confidence.

        output: what the network gives, (n, outputs). Only asked where the task has classes.
        """
        return output

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


class Mae(Loss):
    """L = mean over samples and outputs of |output − target|."""

    name = "mae"
    targets = "values"

    def value(self, output: Array, target: Array) -> float:
        """L."""
        return float(np.mean(np.abs(output - target)))

    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """dL/d output = sign(output − target)/(n k)."""
        return self.value(output, target), np.sign(output - target) * output.dtype.type(1 / output.size)


class Huber(Loss):
    """L = mean of e²/2 where |e| ≤ δ, else δ (|e| − δ/2), with e = output − target."""

    name = "huber"
    called = "Huber loss"
    targets = "values"
    delta: Annotated[float, Field(gt=0)] = 1.0

    def value(self, output: Array, target: Array) -> float:
        """L."""
        size = np.abs(output - target)
        return float(np.mean(np.where(size <= self.delta, 0.5 * size * size, self.delta * (size - 0.5 * self.delta))))

    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """dL/d output = e, at most δ either way, over n k."""
        error = np.clip(output - target, -self.delta, self.delta)
        return self.value(output, target), error * output.dtype.type(1 / output.size)


class BinaryCrossEntropy(Loss):
    """L = mean of ln(1 + eᵒ) − o t: one output o for two classes t = 0, 1, behind a sigmoid that the loss contains."""

    name = "binary_cross_entropy"
    targets = "classes"

    def outputs(self, width: int) -> int:
        """One, for two classes."""
        if width != 2:
            raise StudyError(
                f"binary_cross_entropy has one output for two classes, and the task has {width}; use cross_entropy, or "
                "one_hot_cross_entropy",
                where="train.loss",
            )
        return 1

    def class_outputs(self, output: Array) -> Array:
        """(0, o): its softmax is (1 − σ(o), σ(o))."""
        return np.concatenate([np.zeros_like(output), output], 1)

    def value(self, output: Array, target: Array) -> float:
        """L, without overflow."""
        return float(np.mean(softplus(output[:, 0]) - output[:, 0] * target))

    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """dL/do = (σ(o) − t)/n."""
        gradient = (logistic(output) - target[:, None]) / len(target)
        return self.value(output, target), gradient.astype(output.dtype)


class OneHotLoss(Loss):
    """A loss that compares every output with 1 at the target's class and 0 elsewhere."""

    targets = "classes"
    over_outputs: Literal["mean", "sum"] = "mean"
    """Whether a sample's outputs are averaged (as in PyTorch and Keras) or summed (as in textbooks)."""

    @abstractmethod
    def entries(self, output: Array, one_hot: Array) -> tuple[Array, Array]:
        """(loss, derivative) of every output."""

    def value(self, output: Array, target: Array) -> float:
        """L."""
        return self.value_and_gradient(output, target)[0]

    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """Over samples, and over outputs as asked for."""
        one_hot = np.zeros_like(output)
        one_hot[np.arange(len(target)), target] = 1
        losses, slopes = self.entries(output, one_hot)
        count = output.size if self.over_outputs == "mean" else len(output)
        return float(losses.sum(dtype=np.float64)) / count, slopes * output.dtype.type(1 / count)


class OneHotCrossEntropy(OneHotLoss):
    """L = Σ over outputs of ln(1 + eᵒ) − o t with one-hot t: a binary cross-entropy per class, behind sigmoids."""

    name = "one_hot_cross_entropy"

    def entries(self, output: Array, one_hot: Array) -> tuple[Array, Array]:
        """dL/do = σ(o) − t."""
        return softplus(output) - output * one_hot, logistic(output) - one_hot


class OneHotMse(OneHotLoss):
    """L = Σ over outputs of (o − t)² with one-hot t, halved if `half`: Nielsen's quadratic cost with `sum`."""

    name = "one_hot_mse"
    half: bool = False

    def entries(self, output: Array, one_hot: Array) -> tuple[Array, Array]:
        """dL/do = 2 (o − t), or without the 2."""
        error = output - one_hot
        factor = output.dtype.type(0.5 if self.half else 1.0)
        return factor * error * error, 2 * factor * error


def softplus(x: Array) -> Array:
    """Return ln(1 + eˣ) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def logistic(x: Array) -> Array:
    """Return 1/(1 + e⁻ˣ) without overflow."""
    from scipy.special import expit

    y: Array = expit(x)
    return y


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

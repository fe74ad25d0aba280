"""What a loss is: a number from outputs and targets, and its gradient with respect to the outputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

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

"""What a loss is: a number from outputs and targets, and its gradient with respect to the outputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

from gradlab.parts import Part

Array = NDArray[Any]


class Loss(Part):
    """L(output, target), the mean over the batch."""

    part: ClassVar[str] = "loss"
    targets: ClassVar[Literal["classes", "values"]]
    """What it compares outputs with: class numbers (n,) or real values of the outputs' shape (n, k)."""
    for_training: ClassVar[bool] = True
    """Whether it can be minimized, and so be suggested."""

    @abstractmethod
    def value(self, output: Array, target: Array) -> float:
        """L."""

    @abstractmethod
    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """L and dL/d output."""

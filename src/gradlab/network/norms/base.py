"""What a norm is: it stands before the activation of a layer and may learn tensors of its own, say a gain per unit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from gradlab.network.norms.earlier import adapt
from gradlab.network.tensors import Tensor
from gradlab.parts import Part

Array = NDArray[Any]
Running = tuple[Array, Array] | None
"""Running mean and variance, (h,) each; None for norms without a memory."""
Gradients = Mapping[str, Any]
"""Name of a declared tensor -> its gradient: an array of its shape, or a number where the shape is `()`."""


class Norm(Part):
    """y = norm(x), and its gradient.

    Shapes: n samples, h units of the layer. All arrays are float32 or float64, the same for all of them, and results
    have to keep that dtype. Both methods must be deterministic and must not write to any array they are given; they may
    return such an array itself.

    A file may also hold a norm written for an earlier version (`gain` and `shift` as arguments): see `earlier.py`.
    """

    part: ClassVar[str] = "norm"
    has_memory: ClassVar[bool] = False
    """Whether it keeps running statistics for evaluation; they start at mean 0 and variance 1."""
    is_earlier: ClassVar[bool] = False
    """Whether it was written for an earlier version; set when the class is created."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        adapt(cls)
        super().__init_subclass__(**keywords)

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """What the norm of every hidden layer learns: name -> `Tensor`. Nothing, unless overridden.

        width: units of the layer. depth: hidden layers of the network.
        Returns the same names and shapes whenever it is called. Each layer has its own tensors; layer 3's are stored
        as `layer3.NAME`, beside its `weight` and `bias`.
        """
        return {}

    @abstractmethod
    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """(y, cache, running statistics after this batch).

        x: what the layer's matrix gives (in a pre-activation block: what enters the layer), (n, h).
        p: this layer's tensors by name (a 0-d array for the shape `()`).
        running: the statistics so far; None without a memory.
        training: if false, a sample's y must not depend on the other samples, and `running` is returned as it is.
        y: (n, h). cache: anything, handed to `backward` of the same pass. Return new running statistics, do not
        change the old ones: a measurement throws them away.
        """

    @abstractmethod
    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """(dL/dx, gradients of the tensors) of a forward pass in training mode.

        dy: dL/dy, (n, h). p, cache: as in `forward`. dL/dx: (n, h).
        The gradients name every declared tensor, summed over the samples.
        """


def gain_of(width: int) -> Tensor:
    """One factor per unit, 1 at the start."""
    return Tensor((width,), 1.0, "norm gains")


def shift_of(width: int) -> Tensor:
    """One summand per unit, 0 at the start."""
    return Tensor((width,), 0.0, "norm shifts")

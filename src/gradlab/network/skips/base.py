"""What a skip is: how the input of a block joins the output of its branch.

The branch F of a block is one or more layers. Where the sum stands is the skip's `place`:

    after       y = skip(x, F(x)),       layers  f(norm(x W + b))         plain, identity, scaled, ReZero, Highway
    inside      y = f(skip(x, F(x))),    the last layer's f comes after   add-then-activate
    before      y = skip(x, F(x)),       layers  f(norm(x)) W + b         pre-activation
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

from gradlab.network.skips.earlier import adapt
from gradlab.network.tensors import Tensor
from gradlab.parts import Part

Array = NDArray[Any]
Gradients = Mapping[str, Any]
"""Name of a declared tensor -> its gradient: an array of its shape, or a number where the shape is `()`."""


class Skip(Part):
    """y = skip(x, F), and its gradient.

    Shapes: n samples, h units (the network's width). All arrays are float32 or float64, the same for all of them, and
    results have to keep that dtype. Both methods must be deterministic and must not write to any array they are given;
    they may return such an array itself.

    A file may also hold a skip written for an earlier version (`combine`, `alpha`, `learned`): see `earlier.py`.
    """

    part: ClassVar[str] = "skip"
    place: ClassVar[Literal["after", "inside", "before"]] = "after"
    """Where the sum stands, see above."""
    formula: ClassVar[str]
    """The block in one line for reports, with x, W, b and f: `x + f(Wx + b)`."""
    is_earlier: ClassVar[bool] = False
    """Whether it was written for an earlier version; set when the class is created."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        adapt(cls, Skip)
        super().__init_subclass__(**keywords)

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """What every block learns besides its layers: name -> `Tensor`. Nothing, unless overridden.

        width: units of the block's input, branch and output.
        depth: hidden layers of the network.
        Returns the same names and shapes whenever it is called. Each block has its own tensors; block 2's are stored
        as `block2.NAME`.
        """
        return {}

    def constants(self, width: int, depth: int) -> Mapping[str, float]:
        """Numbers that depend on the network's shape and are not learned; they stand in `p` beside the tensors."""
        return {}

    def written(self, width: int, depth: int) -> str:
        """The formula in a network of this shape; override it to fill in constants."""
        return self.formula

    @abstractmethod
    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """(y, cache).

        x: the block's input, (n, h).
        branch: F(x), (n, h).
        p: this block's tensors by name (arrays; a 0-d array for the shape `()`) and the constants (floats).
        y: (n, h). cache: anything, handed to `backward` of the same pass.
        """

    @abstractmethod
    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """(dL/dx along the skip, dL/dF, gradients of the tensors).

        dy: dL/dy, (n, h). p, cache: as in `forward`.
        dL/dx leaves out what flows through F: the network adds it. None where nothing flows along the skip.
        The gradients name every declared tensor, summed over the samples.
        """

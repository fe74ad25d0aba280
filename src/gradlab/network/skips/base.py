"""What a skip is: how the input of a block joins the output of its branch.

The branch F of a block is one or more layers. Where the sum stands is the skip's `place`:

    after       y = combine(x, F(x)),       layers  f(norm(x W + b))         plain, identity, scaled, ReZero
    inside      y = f(combine(x, F(x))),    the last layer's f comes after   add-then-activate
    before      y = combine(x, F(x)),       layers  f(norm(x)) W + b         pre-activation

α is one number per block: fixed, or learned when `learned` is true.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

from gradlab.parts import Part

Array = NDArray[Any]


class Skip(Part):
    """y = combine(x, F, α) and its gradient."""

    part: ClassVar[str] = "skip"
    place: ClassVar[Literal["after", "inside", "before"]] = "after"
    learned: ClassVar[bool] = False
    formula: ClassVar[str]
    """The block in one line, for reports."""

    def alpha(self, depth: int) -> float:
        """α of every block (at the start, if learned) in a network of this depth."""
        return 1.0

    @abstractmethod
    def combine(self, x: Array, branch: Array, alpha: Any) -> Array:
        """Y from the block's input x and its branch F(x), both of shape (n, width)."""

    @abstractmethod
    def backward(self, dy: Array, branch: Array, alpha: Any) -> tuple[Array | None, Array, Any]:
        """(dL/dx along the skip, dL/dF, dL/dα); None where nothing flows along the skip."""

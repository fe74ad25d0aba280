"""The compatibility rule for skips written before skips declared their tensors.

A class with `combine(x, branch, alpha)` that extends `Skip`, or a skip without α, keeps working: it is adapted once,
when it is created.

    alpha(depth)                        where α starts (1 if left out); learned, one per block, if `learned` is true
    combine(x, branch, alpha)           y
    backward(dy, branch, alpha)         (dL/dx along the skip, dL/dF, dL/dα)
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from gradlab.network.tensors import Tensor


def adapt(cls: Any, base: Any) -> None:
    """Give an earlier class what `base` asks for now, made of its own methods.

    An `alpha` that would not be called, or would not be the one its parent learns, is refused.
    """
    own = vars(cls)
    combines = "combine" in own and len(signature(own["combine"]).parameters) == 4  # with self
    declares = not cls.is_earlier and (cls.tensors, cls.constants) != (base.tensors, base.constants)
    if "forward" in own:
        cls.is_earlier = False
    elif declares and (combines or callable(own.get("alpha"))):
        raise TypeError(
            f"{cls.__name__} declares tensors or constants: write `forward` instead of `combine` or `alpha`"
        )
    elif combines:
        cls.is_earlier = True
        cls.learned, cls.alpha = getattr(cls, "learned", False), getattr(cls, "alpha", lambda self, depth: 1.0)
        cls.tensors = lambda self, width, depth: (
            {"alpha": Tensor((), self.alpha(depth), "skip scales")} if self.learned else {}
        )
        cls.constants = lambda self, width, depth: {} if self.learned else {"alpha": self.alpha(depth)}
        cls.written = lambda self, width, depth: (
            self.formula if self.learned else self.formula.replace("α", f"{self.alpha(depth):.4g}")
        )
        cls.forward = lambda self, x, branch, p: (self.combine(x, branch, p["alpha"]), branch)
    if "backward" in own and cls.is_earlier:
        cls.backward = _adapted(own["backward"])


def _adapted(earlier: Any) -> Any:
    def backward(self: Any, dy: Any, p: Any, cache: Any) -> Any:
        along, to_branch, to_alpha = earlier(self, dy, cache, p["alpha"])
        return along, to_branch, {"alpha": to_alpha} if self.learned else {}

    return backward

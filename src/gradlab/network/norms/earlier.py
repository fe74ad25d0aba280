"""The compatibility rule for norms written before norms declared their tensors.

A class whose `forward` takes a gain and a shift keeps working: it is adapted once, when it is created.

    has_gain, has_shift                             which of the two it learns (both if left out)
    forward(x, gain, shift, running, training)      (y, cache, running)
    backward(dy, gain, cache)                       (dx, dL/dgain, dL/dshift)
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from gradlab.network.tensors import Tensor


def adapt(cls: Any) -> None:
    """Give an earlier class `tensors`, and wrap its `forward` and `backward`."""
    own = vars(cls)
    if "forward" in own:
        cls.is_earlier = len(signature(own["forward"]).parameters) == 6  # with self
        if cls.is_earlier:
            cls.tensors, cls.forward = _tensors, _adapted_forward(own["forward"])
    if "backward" in own and cls.is_earlier:
        cls.backward = _adapted_backward(own["backward"])


def _tensors(self: Any, width: int, depth: int) -> dict[str, Tensor]:
    both = {"gain": Tensor((width,), 1.0, "norm gains"), "shift": Tensor((width,), 0.0, "norm shifts")}
    return {name: tensor for name, tensor in both.items() if getattr(self, f"has_{name}", True)}


def _adapted_forward(earlier: Any) -> Any:
    def forward(self: Any, x: Any, p: Any, running: Any, training: bool) -> Any:
        return earlier(self, x, p.get("gain"), p.get("shift"), running, training)

    return forward


def _adapted_backward(earlier: Any) -> Any:
    def backward(self: Any, dy: Any, p: Any, cache: Any) -> Any:
        dx, to_gain, to_shift = earlier(self, dy, p.get("gain"), cache)
        found = {"gain": to_gain, "shift": to_shift}
        return dx, {name: found[name] for name in p}

    return backward

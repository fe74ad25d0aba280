"""Functions that are called inside a model's forward: nonlinearities, softmax, attention, the choice of experts.

A `TorchFunctionMode` is on from the beginning of the model's forward to its end, in this thread, properly nested; it
calls every function with exactly what it was called with, looks at the few results it knows, and forgets the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from torch.overrides import TorchFunctionMode

import torch
from torch import Tensor

NONLINEAR = {"relu", "relu_", "leaky_relu", "sigmoid", "sigmoid_", "tanh", "tanh_", "gelu", "silu", "elu", "hardtanh",
             "clamp", "clamp_min", "clamp_", "threshold", "softplus", "relu6"}  # fmt: skip
BOUNDED_OPERATIONS = ("sigmoid", "tanh", "hardtanh", "sigmoid_", "tanh_")
SOFTMAX = {"softmax", "_safe_softmax"}
ATTENTION = {"scaled_dot_product_attention"}
CHOICE = {"topk", "argmax"}
KNOWN = NONLINEAR | SOFTMAX | ATTENTION | CHOICE

Told = Callable[[str, Sequence[Any], Mapping[str, Any], Any], None]


class Listening(TorchFunctionMode):
    """Tells of the known functions, with their arguments and result."""

    def __init__(self, told: Told) -> None:
        super().__init__()
        self._told = told

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function as it was called; tell of its result."""
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in KNOWN:
            with suppress(Exception):
                self._told(name, args, kwargs or {}, result)
        return result


class Ear:
    """The mode of one probe: on while the model's forward runs, also if it is called within itself."""

    def __init__(self, told: Told) -> None:
        self._mode = Listening(told)
        self._depth = 0

    def begin(self) -> None:
        """Listen from here on. Only where gradients are recorded: without, PyTorch may take faster kernels."""
        if torch.is_grad_enabled():
            if self._depth == 0:
                self._mode.__enter__()
            self._depth += 1

    def end(self) -> None:
        """Stop listening, if this is the outermost call."""
        if self._depth > 0:
            self._depth -= 1
            if self._depth == 0:
                self._leave()

    def stop(self) -> None:
        """Stop listening, wherever an exception has left it. Idempotent."""
        if self._depth > 0:
            self._depth = 0
            self._leave()

    def pause(self) -> bool:
        """Do not listen while the probe itself computes; return whether to resume."""
        count = torch._C._len_torch_function_stack() if self._depth else 0
        if count and torch._C._get_function_stack_at(count - 1) is self._mode:
            torch._C._pop_torch_function_stack()
            return True
        return False

    def resume(self) -> None:
        """Listen again after a pause."""
        torch._C._push_on_torch_function_stack(self._mode)

    def _leave(self) -> None:
        """Take the mode from the stack; those above it stay."""
        above = []
        while torch._C._len_torch_function_stack():
            top = torch._C._pop_torch_function_stack()
            if top is self._mode:
                break
            above.append(top)
        for mode in reversed(above):
            torch._C._push_on_torch_function_stack(mode)


def first_tensor(values: Any) -> Tensor | None:
    """Return a result, or the first of several."""
    if isinstance(values, Tensor):
        return values
    if isinstance(values, tuple | list) and values and isinstance(values[0], Tensor):
        return values[0]
    return None

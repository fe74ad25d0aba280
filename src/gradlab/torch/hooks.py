"""Hooks that never break a pass, track their own cost, and are dropped when the model is copied.

A model may be copied or saved while it trains (a moving average, the best checkpoint). An attached hook is then copied
and pickled as a no-op from the standard library. Inside a graph that is being compiled a hook does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter
from typing import Any, Protocol
from weakref import ref

import torch
from gradlab.errors import described
from torch import Tensor


class HookOwner(Protocol):
    """The object that a hook reports to."""

    seconds: float
    skipped: dict[str, str]


class Hook:
    """Calls a method of its owner. An exception in it is recorded under `label`, and the pass continues.

    The owner is held weakly: parameters hold their hooks where the garbage collector does not look.
    """

    def __init__(self, owner: HookOwner, label: str, action: Callable[..., None], *given: Any) -> None:
        self._owner, self._label, self._action, self._given = ref(owner), label, action, given

    def report_to(self, owner: HookOwner) -> None:
        """Report to another owner from now on."""
        self._owner = ref(owner)

    def __call__(self, *arguments: Any) -> None:
        """Call the action. Never raises an `Exception`."""
        if torch.compiler.is_compiling():
            return
        owner = self._owner()
        if owner is None:
            return
        start = perf_counter()
        try:
            self._action(owner, *self._given, *arguments)
        except Exception as error:  # tensors without values (vmap, meta), an operation that the device lacks
            owner.skipped.setdefault(self._label, (described(error).splitlines() or [""])[0])
        finally:
            owner.seconds += perf_counter() - start

    def __reduce__(self) -> Any:
        return getattr, (nullcontext(), "__exit__")


def attach_first(parameter: Tensor, hook: Hook) -> Any:
    """Attach a hook that reads a gradient before any other hook can use it up, and return its handle.

    An optimizer that steps inside the backward pass clears gradients in a hook of its own. Hooks are called in the
    order in which their dict was filled.
    """
    handle = parameter.register_post_accumulate_grad_hook(hook)
    hooks = parameter._post_accumulate_grad_hooks
    if hooks is not None and len(hooks) > 1:
        others = {key: value for key, value in hooks.items() if value is not hook}
        for key in others:
            del hooks[key]
        hooks.update(others)
    return handle

"""Hear of backward calls: what is differentiated is the loss, and afterwards the gradients are there.

While at least one listener is there, `torch.autograd.backward` (and so `Tensor.backward`) tells it the tensors just
before it runs, and that it has run. The engine is called with exactly what it was called with; listeners cannot fail
into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, Protocol
from weakref import WeakSet

import torch

ENGINE = "_engine_run_backward"
"""The name in `torch.autograd` through which `backward` and `grad` reach the engine."""
_lock = RLock()
_engine: Any = None


class BackwardListener(Protocol):
    """Something that wants to know of backward calls."""

    def before_backward(self, losses: Sequence[Any]) -> None:
        """Be told which tensors are about to be differentiated."""

    def after_backward(self) -> None:
        """Be told that gradients are there."""

    def abandon_backward(self) -> None:
        """Be told that the backward pass has failed."""


_listeners: WeakSet[BackwardListener] = WeakSet()


def listen(listener: BackwardListener) -> None:
    """Tell a listener of every backward call from now on."""
    global _engine
    with _lock:
        _listeners.add(listener)
        if _engine is None and callable(getattr(torch.autograd, ENGINE, None)):
            _engine = getattr(torch.autograd, ENGINE)
            setattr(torch.autograd, ENGINE, torch.compiler.disable(_tell_and_run))


def stop_listening(listener: BackwardListener) -> None:
    """Tell it no more; the last one to leave puts everything back. Idempotent."""
    global _engine
    with _lock:
        _listeners.discard(listener)
        if not len(_listeners) and _engine is not None:
            setattr(torch.autograd, ENGINE, _engine)
            _engine = None


def _tell_and_run(outputs: Any, *arguments: Any, **options: Any) -> Any:
    engine = _engine
    told = list(_listeners) if options.get("accumulate_grad") else []
    for listener in told:
        with suppress(Exception):
            listener.before_backward(outputs)
    if engine is None:  # the last listener left in another thread meanwhile
        engine = torch.autograd.graph._engine_run_backward
    try:
        found = engine(outputs, *arguments, **options)
    except BaseException:
        for listener in told:
            with suppress(Exception):
                listener.abandon_backward()
        raise
    for listener in told:
        with suppress(Exception):
            listener.after_backward()
    return found

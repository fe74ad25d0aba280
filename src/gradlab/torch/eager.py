"""Compiled code runs past hooks; while anybody is looking, it runs eagerly. Any number may look at the same time."""

from __future__ import annotations

from threading import RLock
from typing import Any

import torch

_lock = RLock()
_looking = 0
_stance: Any = None


class Eager:
    """From `begin` to `end` compiled functions and modules run as they are written; none is compiled anew for it."""

    def __init__(self) -> None:
        self._on = False

    def begin(self) -> None:
        """Somebody looks."""
        global _looking, _stance
        with _lock:
            if self._on:
                return
            self._on = True
            _looking += 1
            if _looking == 1 and hasattr(torch.compiler, "set_stance"):
                _stance = torch.compiler.set_stance("force_eager")

    def end(self) -> None:
        """And looks no more; may be said twice."""
        global _looking, _stance
        with _lock:
            if not self._on:
                return
            self._on = False
            _looking -= 1
            if _looking == 0 and _stance is not None:
                _stance.__exit__(None, None, None)
                _stance = None

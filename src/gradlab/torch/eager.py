"""Compiled code runs past hooks; while anybody is looking, it runs eagerly. Any number may look at the same time."""

from __future__ import annotations

from threading import Lock
from typing import Any

import torch

_lock = Lock()
_looking = 0
_stance: Any = None


class Eager:
    """A context in which compiled functions and modules run as they are written; nothing is compiled anew after it."""

    def __enter__(self) -> None:
        global _looking, _stance
        with _lock:
            _looking += 1
            if _looking == 1 and hasattr(torch.compiler, "set_stance"):
                _stance = torch.compiler.set_stance("force_eager")

    def __exit__(self, *error: object) -> None:
        global _looking, _stance
        with _lock:
            _looking -= 1
            if _looking == 0 and _stance is not None:
                _stance.__exit__(None, None, None)
                _stance = None

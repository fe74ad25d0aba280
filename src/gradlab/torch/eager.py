"""Force eager mode while a probe is active: compiled code skips hooks. Any number of probes may be active."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import RLock
from typing import Any

import torch

WRAPPERS, DYNAMO = ("compile_wrapper", "_fn"), str(Path("torch", "_dynamo", "eval_frame.py"))
"""The functions that call what was compiled, and the end of their file's name."""
_lock = RLock()
_active_count = 0
_stance: Any = None


def is_inside_compiled() -> bool:
    """Whether the caller was called by a compiled function or module, also one that is forced to run eagerly."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in WRAPPERS and frame.f_code.co_filename.endswith(DYNAMO):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


class EagerMode:
    """Between `begin` and `end`, compiled functions and modules run eagerly; nothing is recompiled for it."""

    def __init__(self) -> None:
        self._on = False

    def begin(self) -> None:
        """Force eager mode. Idempotent."""
        global _active_count, _stance
        with _lock:
            if self._on:
                return
            self._on = True
            _active_count += 1
            if _active_count == 1 and hasattr(torch.compiler, "set_stance"):
                _stance = torch.compiler.set_stance("force_eager")

    def end(self) -> None:
        """Stop forcing eager mode. Idempotent."""
        global _active_count, _stance
        with _lock:
            if not self._on:
                return
            self._on = False
            _active_count -= 1
            if _active_count == 0 and _stance is not None:
                _stance.__exit__(None, None, None)
                _stance = None

"""What a session has to say: of every kind of message only the newest, and whoever wants to be woken by it.

A page that is slow misses messages and is never behind.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any


class Messages:
    """Every method may be called from any thread."""

    def __init__(self, change: threading.Condition) -> None:
        self._change = change
        self.newest: dict[str, tuple[int, bytes]] = {}
        """Kind -> (number, message): `stage`, `audit`, `theory`, `fault`, `frame`."""
        self._number = 0
        self._wakes: list[Callable[[], None]] = []

    def publish(self, kind: str, tree: dict[str, Any]) -> None:
        """Replace the message of this kind, and wake everybody who listens."""
        content = json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()
        with self._change:
            self._number += 1
            self.newest[kind] = (self._number, content)
            wakes = list(self._wakes)
        for wake in wakes:
            wake()

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after every new message; the function that is returned ends it."""
        with self._change:
            self._wakes.append(wake)
            self._change.notify_all()

        def leave() -> None:
            with self._change:
                self._wakes.remove(wake)

        return leave

    @property
    def listeners(self) -> int:
        """How many pages listen."""
        return len(self._wakes)

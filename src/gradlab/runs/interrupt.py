"""Ctrl-C: the first keeps what is finished and lets the run end in order, the second stops the process at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from gradlab.errors import INTERRUPTED

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""SIGHUP: the terminal is gone (a dropped connection); what is finished is kept all the same."""


@contextmanager
def on_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Inside, the first SIGINT, SIGTERM or SIGHUP calls `action`; a second ends the process with code 130.

    Ending at once is safe: results are committed whole or not at all. In a thread that is not the main one signals
    cannot be taken, and nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen and number == getattr(signal, "SIGHUP", None):
            return  # a terminal that closes says so twice, and nobody pressed anything
        if seen:
            for worker in multiprocessing.active_children():
                worker.kill()
            os._exit(INTERRUPTED)
        seen = True
        action()

    # a signal that is ignored on purpose (nohup, a background job), or that some other library has taken, stays so
    ours = [number for number in _SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, handle) for number in ours}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

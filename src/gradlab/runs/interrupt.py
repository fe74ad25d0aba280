"""Ctrl-C: the first stops the run in order and keeps finished trials, the second ends the process at once."""

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
"""SIGHUP: the terminal is closed (a dropped connection); finished trials are kept."""


@contextmanager
def on_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Call `action` on the first SIGINT, SIGTERM or SIGHUP inside the block; a second ends the process with code 130.

    Ending at once is safe: results are committed whole or not at all. Outside the main thread signals cannot be
    handled, and the block does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = hung_up = False
    hang_up = getattr(signal, "SIGHUP", None)

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal seen, hung_up
        hung_up = hung_up or number == hang_up
        if seen and number == hang_up:
            return  # a closing terminal sends it twice without a key press
        if seen:
            for worker in multiprocessing.active_children():
                worker.kill()
            os._exit(INTERRUPTED)
        seen = True
        action()

    # a signal that is ignored on purpose (nohup, a background job), or handled outside Python, keeps its handler
    ours = [number for number in _SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, handle) for number in ours}
    try:
        yield
    finally:
        for number, handler in before.items():
            # the second hang-up of a closing terminal may come only now, while the report is written
            signal.signal(number, signal.SIG_IGN if hung_up and number == hang_up else handler)

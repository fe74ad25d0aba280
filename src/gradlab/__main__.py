"""`python -m gradlab` and `gradlab`: the signals first, then everything else, so that Ctrl-C is never a traceback."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from gradlab.errors import INTERRUPTED


def main() -> NoReturn:
    """The command line. SIGTERM means the same as Ctrl-C; both are quiet while modules are loaded and at the end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a job in the background: that stays
            signal.signal(number, _leave)
    from gradlab.cli import main as run

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _leave:
            signal.signal(number, _interrupt)
    code = 1
    try:
        run()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # all is done: what is left is Python's own end
    _end(code)


def _end(code: int) -> NoReturn:
    """End the process with this code, whatever libraries do at their own end.

    A thread of Arrow that is just starting aborts the process (code 134) when static objects are destroyed, and Python
    kills itself by SIGINT after an interrupt that was handled. So: run the exit handlers, flush, leave.
    """
    with suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Nothing was begun: there is nothing to give back."""
    with suppress(OSError):
        os.write(2, b"gradlab: interrupted\n")
    os._exit(INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.argv[0] = "gradlab"
    main()

"""Notices to the user on stderr that may not fail: there may be no stderr, or nobody may read it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO

_said: set[str] = set()


def say(text: str) -> None:
    """One line on stderr, if there is one."""
    stream = sys.stderr
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.write(f"gradlab: {text}\n")
            stream.flush()


def say_once(text: str) -> None:
    """The same line only once in this process."""
    if text not in _said:
        _said.add(text)
        say(text)


def open_missing_streams() -> None:
    """Give a process that was started without stdin, stdout or stderr empty ones.

    A file that is opened later would otherwise get the number of a missing one, and messages would go into it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf8"))  # noqa: SIM115 - for the life of the process
    if not isinstance(sys.stderr, Forgiving):
        sys.stderr = Forgiving(sys.stderr)


class Forgiving:
    """A stream that is written to as long as somebody reads it; afterwards, what is written to it is lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As far as it goes."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """As far as it goes."""
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

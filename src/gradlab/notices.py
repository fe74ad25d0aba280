"""Notices to the user on stderr that never fail: stderr may be missing or closed."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO

_said: set[str] = set()


def say(text: str) -> None:
    """Write one line to stderr, if there is one."""
    stream = sys.stderr
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.write(f"gradlab: {text}\n")
            stream.flush()


def say_once(text: str) -> None:
    """Write a line to stderr at most once per process."""
    if text not in _said:
        _said.add(text)
        say(text)


def open_missing_streams() -> None:
    """Open the null device in place of a missing stdin, stdout or stderr.

    Otherwise a file opened later would get the missing descriptor's number, and messages would go into that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor, which is this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf8"))  # noqa: SIM115 - for the life of the process
    if not isinstance(sys.stderr, Forgiving):
        sys.stderr = Forgiving(sys.stderr)


class Forgiving:
    """A stream wrapper that drops what it cannot write, for example after the reader has closed the pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text`, or drop it if the stream is closed."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, or do nothing if the stream is closed."""
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

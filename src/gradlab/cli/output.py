"""What reaches the terminal: with --json one object and nothing else; of names and texts only what can be seen."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 200
"""Columns of a table that goes to a file or a pipe."""
_INVISIBLE = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Unicode's categories of control, format (direction, zero width), private, surrogate and line characters."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u3164\uffa0")
"""Letters and marks that take no room, or show nothing."""
_json_stream: TextIO | None = None
"""Where the object of --json goes while stdout is closed to everybody else."""


def visible(text: str) -> str:
    """A text in which nothing can move the cursor, change its direction or hide: such letters are spelled out."""
    if text.isprintable() and _BLANK.isdisjoint(text):
        return text
    return "".join(_spelled(c) if _is_hidden(c) and c not in "\n\t" else c for c in text)


def _is_hidden(letter: str) -> bool:
    return letter in _BLANK or unicodedata.category(letter) in _INVISIBLE


def escape(text: str) -> str:
    """A visible text that rich prints as it stands."""
    from rich import markup

    return markup.escape(visible(text))


def _spelled(letter: str) -> str:
    number = ord(letter)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def json_text(value: Any) -> str:
    """JSON with non-finite numbers as "nan", "inf", "-inf", and invisible letters spelled out as JSON spells them."""
    from gradlab.spec.canonical import plain_json

    text = json.dumps(plain_json(value), indent=2, ensure_ascii=False)
    if text.replace("\n", "").isprintable() and _BLANK.isdisjoint(text):
        return text
    return "".join(json.dumps(c)[1:-1] if _is_hidden(c) and c != "\n" else c for c in text)


def emit_json(value: Any) -> None:
    """The one object of a command with --json."""
    stream = _json_stream or sys.stdout
    stream.write(json_text(value) + "\n")
    stream.flush()


@contextmanager
def json_only() -> Iterator[None]:
    """Inside, whatever else writes to stdout (code of the user's, its libraries, worker processes) goes to stderr."""
    global _json_stream
    before, shown = _json_stream, sys.stdout
    shown.flush()
    kept = _aside(shown)
    _json_stream = shown if kept is None else os.fdopen(os.dup(kept), "w", encoding="utf8")
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        if kept is None:
            sys.stdout = shown
        else:  # to the end of the process: what is printed while it ends is not part of the object either
            with suppress(OSError):
                _json_stream.close()
            os.close(kept)
        _json_stream = before


def _aside(stream: TextIO) -> int | None:
    """Point the process's stdout to its stderr; gives where it pointed, or None where the stream is another."""
    try:
        if stream.fileno() != 1:
            return None
        kept = os.dup(1)
        os.dup2(2, 1)
        return kept
    except (OSError, ValueError, AttributeError):
        return None


def drop_stdout() -> None:
    """Nobody reads stdout any more: what is still to be written goes nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@cache
def _console() -> type[Console]:
    """Made when it is needed: `gradlab --help` is to be instant."""
    from rich.console import Console

    class Calm(Console):
        """A console that leaves a broken pipe to us: rich would end the process with an error."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Calm


def console(stream: TextIO) -> Console:
    """Where to print: as wide as the terminal, or wide enough for a file."""
    return _console()(file=stream, highlight=False, width=None if stream.isatty() else WIDE)

"""Terminal output: with --json one object and nothing else; texts without invisible characters."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TextIO, TypeVar

from gradlab.notices import say
from gradlab.words import is_hidden
from gradlab.words import visible as visible

NARROW = 30
"""Columns that text beside its head needs at least."""
_json_stream: TextIO | None = None
"""Where the object of --json goes while stdout is redirected."""


def hang(head: str, text: str) -> str:
    """Head and text on one line; in a terminal that is too narrow, the text goes on below itself, or below the head."""
    if not sys.stdout.isatty():
        return head + text
    width = max(40, shutil.get_terminal_size().columns) - 1
    beside = width - len(head) >= NARROW
    start = head if beside else " " * 4
    indent = " " * len(start)
    told = textwrap.fill(
        text, width, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return told if beside else f"{head.rstrip()}\n{told}"


def fold(text: str) -> str:
    """Break the lines of a message between words at the width of the terminal; leave text for a file as it is."""
    if not sys.stderr.isatty():
        return text
    width, first = max(40, shutil.get_terminal_size().columns), "gradlab: "
    lines = [
        textwrap.fill(
            line.strip(),
            width - 1,
            initial_indent=" " * (len(line) - len(line.lstrip()) + (len(first) if index == 0 else 2)),
            subsequent_indent="    ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        for index, line in enumerate(text.splitlines())
    ]
    return "\n".join(lines)[len(first) :]


def json_text(value: Any) -> str:
    """Return JSON with non-finite numbers as "nan", "inf", "-inf", and invisible characters escaped."""
    from gradlab.spec.base import plain_json

    text = json.dumps(plain_json(value), indent=2, ensure_ascii=False)
    if visible(text) == text:
        return text
    return "".join(json.dumps(c)[1:-1] if is_hidden(c) and c != "\n" else c for c in text)


def emit_json(value: Any) -> None:
    """Print the one object of a command with --json."""
    stream = _json_stream or sys.stdout
    stream.write(json_text(value) + "\n")
    stream.flush()


class Reported(Protocol):
    """What a command answers with: an object that programs can read too."""

    def to_json(self) -> Any:
        """The object as plain data."""


Answer = TypeVar("Answer", bound=Reported)


def answer(value: Answer, show: Callable[[Answer], None], as_json: bool) -> None:
    """Print what a command found out: as its one JSON object, or as `show` prints it for people."""
    if as_json:
        emit_json(value.to_json())
    else:
        show(value)


def say_all(notes: Iterable[str]) -> None:
    """Write notes to stderr, a line each."""
    for note in notes:
        say(visible(note))


@contextmanager
def json_only() -> Iterator[None]:
    """Redirect everything else that is written to stdout (by user code, libraries, worker processes) to stderr.

    Inside another `json_only` it changes nothing: stdout is stderr there already, and the object must not go to it.
    """
    global _json_stream
    if _json_stream is not None:
        yield
        return
    before, original = _json_stream, sys.stdout
    original.flush()
    stdout = _redirect_stdout(original)
    _json_stream = original if stdout is None else os.fdopen(os.dup(stdout), "w", encoding="utf8")
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        if stdout is None:
            sys.stdout = original
        else:  # until the end of the process: output during shutdown is not part of the object either
            with suppress(OSError):
                _json_stream.close()
            os.close(stdout)
        _json_stream = before


def _redirect_stdout(stream: TextIO) -> int | None:
    """Redirect the process's stdout to its stderr; return a copy of stdout, or None if the stream is not stdout."""
    try:
        if stream.fileno() != 1:
            return None
        stdout = os.dup(1)
        os.dup2(2, 1)
        return stdout
    except (OSError, ValueError, AttributeError):
        return None


def drop_stdout() -> None:
    """Discard further output to stdout, because its reader is gone."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def duration(seconds: float) -> str:
    """About how long something takes: `a second`, `40 s`, `12 min`, `1.5 h`."""
    if seconds < 1:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

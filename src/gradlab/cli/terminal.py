"""The terminal as rich knows it: color only there, never with NO_COLOR."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from rich import markup
from rich.console import Console

from gradlab.cli.output import visible

WIDE = 200
"""Columns of a table that is written to a file or a pipe."""


class Terminal(Console):
    """Prints to stdout or to another stream; raises on a broken pipe instead of ending the process as rich does."""

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = stream or sys.stdout
        super().__init__(file=stream, highlight=False, width=None if stream.isatty() else WIDE)

    def on_broken_pipe(self) -> None:
        """Raise, so that the command ends with code 0."""
        raise BrokenPipeError

    def say(self, *texts: str, indent: str = "", **options: Any) -> None:
        """Print texts as they are, one per line, without markup and without invisible characters."""
        for text in texts:
            self.print(escape(indent + text), **options)


def escape(text: str) -> str:
    """Escape invisible characters and rich's markup."""
    return markup.escape(visible(text))

"""The exception hierarchy and its exit codes.

    GradlabError                exit code 1
    ├── InvalidInput            exit code 2: the user can fix it
    │   ├── StudyError          a study file or an override cannot be run
    │   ├── DataError           a data file is missing, damaged or has the wrong shape
    │   └── PartError           a part (activation, skip, ...) is unknown, or its file is broken
    ├── EnvironmentFault        this machine or process cannot produce correct results
    └── StoreError              a run folder cannot be written or read

A message says what is wrong, where, and what to do. The command line prints it without a traceback and exits with
`exit_code`, because it is not a bug in Gradlab.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Self

INTERRUPTED = 130
"""Exit code after Ctrl-C, SIGTERM or SIGHUP; finished trials are kept."""


Where = tuple[str | int, ...]
"""Keys and list positions (from 0) from the top of a study; a key may be a dotted path."""


@dataclass(frozen=True)
class Problem:
    """What is wrong, and which field of the study it is about."""

    message: str
    where: Where = ()

    def __str__(self) -> str:
        path = write_path(self.where)
        return f"{path}: {self.message}" if path else self.message


def write_path(where: Where) -> str:
    """Return a path for people, with list items counted from 1: `claims.1.metric` is the metric of the first claim."""
    return ".".join(str(key + 1) if isinstance(key, int) else key for key in where)


class GradlabError(Exception):
    """Base class of every error that Gradlab raises on purpose."""

    exit_code = 1


class InvalidInput(GradlabError):
    """The user's input cannot be used as written. `where` is the field of the study that is wrong, if it is one."""

    exit_code = 2

    def __init__(self, message: str = "", *, where: str | Where = (), problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        path = ((where,) if where else ()) if isinstance(where, str) else where
        self.problems = problems or (Problem(message, path),)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))

    def below(self, *above: str | int) -> Self:
        """Return the same error about a field further down: `above` comes before its path."""
        return type(self)(problems=tuple(Problem(found.message, (*above, *found.where)) for found in self.problems))


class StudyError(InvalidInput):
    """A study file, or an override of it, cannot be run."""


class DataError(InvalidInput):
    """A data file is missing, damaged or has the wrong shape."""


class PartError(InvalidInput):
    """A part is unknown, or the file that defines it is broken."""


class EnvironmentFault(GradlabError):
    """This machine or process cannot produce correct results."""


class StoreError(GradlabError):
    """A run folder cannot be written or read."""


def with_article(words: str) -> str:
    """`a fixed rate`, `an exponential schedule`."""
    return f"{'an' if words[:1].lower() in 'aeiou' else 'a'} {words}"


def nearest(name: object, accepted: Iterable[str]) -> str:
    """Return a hint with the accepted word closest to `name`, or an empty string."""
    close = get_close_matches(str(name), list(accepted), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def offer(name: object, accepted: Iterable[str]) -> str:
    """Return the end of a refusal: the accepted word closest to `name`, if there is one, then all accepted words."""
    words = list(accepted)
    hint, listed = nearest(name, words), ", ".join(words) or "none"
    return f"{hint} Accepted: {listed}" if hint else f"; accepted: {listed}"


def described(error: BaseException) -> str:
    """Return an exception's type and message, even if its `__str__` raises."""
    try:
        text = str(error)
    except BaseException as second:  # a user's exception class may fail in any way
        if isinstance(second, KeyboardInterrupt):
            raise
        text = "(its message cannot be shown)"
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def shortened(value: object, limit: int = 80) -> str:
    """Return `repr(value)`, truncated to fit in a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"

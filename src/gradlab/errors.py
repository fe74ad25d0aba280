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
from difflib import get_close_matches

INTERRUPTED = 130
"""Exit code after Ctrl-C, SIGTERM or SIGHUP; finished trials are kept."""


class GradlabError(Exception):
    """Base class of every error that Gradlab raises on purpose."""

    exit_code = 1


class InvalidInput(GradlabError):
    """The user's input cannot be used as written."""

    exit_code = 2


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


def nearest(name: object, accepted: Iterable[str]) -> str:
    """Return a hint with the accepted word closest to `name`, or an empty string."""
    close = get_close_matches(str(name), list(accepted), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


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

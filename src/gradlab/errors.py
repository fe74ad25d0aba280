"""Everything the lab refuses, in one tree.

    GradlabError                exit code 1
    ├── InvalidInput            exit code 2: the user can mend it
    │   ├── StudyError          a study file or an override says something that cannot be run
    │   ├── DataError           a data file is missing, damaged or of the wrong shape
    │   └── PartError           a part (activation, skip, ...) is unknown, or its file is broken
    ├── EnvironmentFault        this machine or process cannot give correct results
    └── StoreError              a run's folder cannot be written or read

A message says what was wrong, where, and what to do. The command line prints it and exits with
`exit_code`; no traceback, because it is not a defect of the lab.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

INTERRUPTED = 130
"""Exit code after Ctrl-C, SIGTERM or SIGHUP; finished trials are kept."""


class GradlabError(Exception):
    """Anything the lab refuses or cannot do."""

    exit_code = 1


class InvalidInput(GradlabError):
    """What the user wrote cannot be used as it stands."""

    exit_code = 2


class StudyError(InvalidInput):
    """A study file, or an override of it, says something that cannot be run."""


class DataError(InvalidInput):
    """A data file is missing, damaged or of the wrong shape."""


class PartError(InvalidInput):
    """A part is unknown, or the file that defines it is broken."""


class EnvironmentFault(GradlabError):
    """This machine or process cannot give correct results."""


class StoreError(GradlabError):
    """A run's folder cannot be written or read."""


def nearest(name: object, accepted: Iterable[str]) -> str:
    """A hint that names the accepted word closest to `name`, or nothing."""
    close = get_close_matches(str(name), list(accepted), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def described(error: BaseException) -> str:
    """An exception's kind and message, whatever its own methods do."""
    try:
        text = str(error)
    except BaseException as second:  # somebody's own class may fail in any way
        if isinstance(second, KeyboardInterrupt):
            raise
        text = "(its message cannot be told)"
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def shortened(value: object, limit: int = 80) -> str:
    """`repr(value)`, cut to a length that fits in a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"

"""Data that another process has read: a cluster's driver reads a file once and places it in every worker.

A task names what it reads (`Task.source`); tasks with the same source share the arrays. On a machine of a cluster the
arrays are one copy in shared memory, whatever the number of workers, and the file itself need not be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_placed: dict[str, Any] = {}


def place(arrays: Mapping[str, Any]) -> None:
    """Make these arrays what tasks with these sources read, until the process ends."""
    _placed.update(arrays)


def placed(source: str) -> Any:
    """Return what was placed for a source; None if nothing was."""
    return _placed.get(source)

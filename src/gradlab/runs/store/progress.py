"""Progress of a run, for other terminals: a small file that the coordinator rewrites every second.

It is valid only while the run's lock is held: a dead process leaves the file, but not the lock.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gradlab.runs.store.lock import read_json_object
from gradlab.spec.canonical import plain_json

NAME = "progress.json"
SECONDS = 1.0


class Heartbeat:
    """Writes the result of `read_progress` every second while the context is open."""

    def __init__(self, folder: Path, read_progress: Callable[[], Mapping[str, Any]]) -> None:
        self._path = folder / NAME
        self._read_progress = read_progress
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="gradlab-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end.set()
        self._thread.join()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while True:
            with suppress(OSError):  # a full disk: the run's commits will report it
                temporary = self._path.with_name(f".{NAME}.tmp")
                temporary.write_text(json.dumps(plain_json(dict(self._read_progress()))))
                os.replace(temporary, self._path)
            if self._end.wait(SECONDS):
                return


def read(folder: Path) -> Mapping[str, Any]:
    """Return the latest progress; empty if there is none."""
    return read_json_object(folder / NAME)

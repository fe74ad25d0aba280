"""Data files that the user gives to a lab, and its temporary folders."""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from gradlab.data.file import File
from gradlab.errors import DataError, shortened
from gradlab.runs.store.files import Lock, is_held
from gradlab.web.settings import COLUMNS, SAMPLES, UNPACKED, UPLOAD

PREFIX, UNFINISHED = "gradlab-lab-", "gradlab-begun-"


class Scratch:
    """A private folder that this process holds a lock on for as long as it lives.

    A lab that is killed leaves its own; the next one removes it.
    """

    def __init__(self) -> None:
        _remove_left()
        begun = Path(tempfile.mkdtemp(prefix=UNFINISHED))
        lock = Lock.take(begun)
        # renamed once it is locked, so that another lab never sees it without its lock
        self.path = begun.rename(begun.with_name(begun.name.replace(UNFINISHED, PREFIX)))
        self.remove = weakref.finalize(self, _remove, self.path, lock)
        """Removes the folder and everything in it; called at the latest when this object or the process ends."""


def _remove(path: Path, lock: Lock) -> None:
    shutil.rmtree(path, ignore_errors=True)
    lock.release()


def _remove_left() -> None:
    """Remove the folders of labs of this user that no process holds any more."""
    own: Callable[[], int] = getattr(os, "geteuid", lambda: 0)
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            ours = not folder.is_symlink() and folder.is_dir() and folder.stat().st_uid == own()
            if ours and not is_held(folder):
                shutil.rmtree(folder, ignore_errors=True)


# The user's own data files: limited in size, parsed without pickle, kept in a private temporary folder.
#
# They go the way of every data file, `data/file.py`; what is wrong with one is a sentence.

KINDS = (".npz", ".csv")
MOST_FILES = 50


@dataclass(frozen=True)
class Upload:
    """A file that was checked: who it is, what it was called, and the task that reads it."""

    id: str
    name: str
    path: Path
    data: Mapping[str, Any]
    """The task as a study writes it."""
    stated: str
    """What it holds, in words."""

    def to_json(self) -> dict[str, str]:
        """What the page shows."""
        return {"id": self.id, "name": self.name, "stated": self.stated}


class Uploads:
    """All files of this server; they are removed when it ends."""

    def __init__(self) -> None:
        self._folder = Scratch()
        self._known: dict[str, Upload] = {}

    def add(self, name: str, content: bytes) -> Upload:
        """Check and keep a file; a `DataError` says why it cannot be used."""
        suffix, shown = Path(name).suffix.lower(), shortened(Path(name).name)
        if suffix not in KINDS:
            raise DataError(f"{shown}: the page reads npz (arrays x and y) and csv (a header and numbers)")
        if len(content) > UPLOAD:
            raise DataError(f"{shown} is larger than {UPLOAD // 2**20} MiB; use `data: {{task: file}}` in a study")
        identity = sha256(suffix.encode() + content).hexdigest()[:16]
        if identity in self._known:
            return self._known[identity]
        if len(self._known) >= MOST_FILES:
            raise DataError(f"{shown}: this server keeps at most {MOST_FILES} files; restart it to begin anew")
        path = self._folder.path / f"{identity}{suffix}"
        path.write_bytes(content)
        try:
            found = _check(path, identity, Path(name).name[:80])
        except DataError as error:
            path.unlink()
            raise DataError(str(error).replace(f"data file {path}", shown).replace(str(path), shown)) from None
        self._known[identity] = found
        return found

    def get(self, identity: str) -> Upload:
        """The file of this id; a `DataError` if this server does not have it."""
        if identity not in self._known:
            raise DataError("this file is not here any more; choose it again")
        return self._known[identity]

    def remove_all(self) -> None:
        """Remove every file."""
        self._folder.remove()


def _check(path: Path, identity: str, name: str) -> Upload:
    data: dict[str, Any] = {"task": "file", "path": str(path)}
    if path.suffix == ".npz":
        _refuse_large_archive(path)
    else:
        data["target"] = _find_target(path)
    task = File.parse({key: value for key, value in data.items() if key != "task"})
    facts = task.facts()
    if facts.samples > SAMPLES or facts.input_width > COLUMNS:
        raise DataError(
            f"data file {path}: {facts.samples:,} samples of {facts.input_width:,} numbers are more than the page "
            f"takes ({SAMPLES:,} of {COLUMNS:,})"
        )
    return Upload(identity, name, path, data, facts.stated.replace(path.name, name))


def _refuse_large_archive(path: Path) -> None:
    """Refuse an archive by what it says it unpacks to, before anything is unpacked; zipfile reads no more."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        raise DataError(f"data file {path}: damaged or not an npz archive") from None
    if size > UNPACKED:
        raise DataError(f"data file {path}: it unpacks to {size / 2**20:,.0f} MiB; at most {UNPACKED // 2**20} MiB")


def _find_target(path: Path) -> str:
    """The column with the targets: `y` if there is one, else the last."""
    try:
        with path.open(encoding="utf8", newline="") as file:
            names = next(csv.reader(file), [])
    except (UnicodeDecodeError, csv.Error):
        raise DataError(f"data file {path}: not a csv file in UTF-8") from None
    if not names:
        raise DataError(f"data file {path}: the file is empty")
    return "y" if "y" in names else names[-1]

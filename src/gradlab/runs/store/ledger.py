"""The ledger of a run: what was planned, committed, looked at and changed, one JSON object per line, hash-chained.

    {"at":"2026-05-01T12:00:00+00:00","data":{…},"kind":"plan","n":1,"previous":"000…","sha256":"8c1f…"}

`sha256` is that of the line without it, `previous` that of the line before: an edited, inserted or removed line breaks
the chain. `ledger.json` beside it holds the number and hash of the last entry, so that lines missing at the end show
too. A line is appended under a lock of the file and synced; a line that a dying process left torn is taken out by the
next append, which says so in an entry of its own (`repaired`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any

from gradlab.errors import StoreError
from gradlab.runs.store import lock
from gradlab.runs.store.atomic import open_own, read_regular, write_bytes
from gradlab.runs.store.sealed import DamagedFile, read_sealed, sealed
from gradlab.spec.canonical import canonical_json

LEDGER, HEAD = "ledger.jsonl", "ledger.json"
GENESIS = "0" * 64
"""What the first entry names as its predecessor."""
PATIENCE = 5.0
"""Seconds to wait for another process that is appending."""
_SEAL = re.compile(rb',"sha256":"([0-9a-f]{64})"\}$')
_KEPT = 500
"""Letters of a torn line that are kept in the entry that repairs it."""

Note = tuple[str, Mapping[str, Any]]
"""Kind and data of an entry that is to be appended."""


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    number: int
    at: str
    """When it was written, in UTC."""
    kind: str
    data: Mapping[str, Any]
    previous: str
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {"n": self.number, "at": self.at, "kind": self.kind, "data": dict(self.data), "sha256": self.sha256}


@dataclass(frozen=True)
class Ledger:
    """The entries that can be read, and what is wrong with the file."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()
    """A sentence for each line that is not what was written."""
    torn: bytes = b""
    """A last line without its end: a process died while it wrote."""
    cut: int = 0
    """How many entries are missing at the end, by what `ledger.json` says."""

    @property
    def last(self) -> str:
        """The hash of the last entry: it stands for all of them."""
        return self.entries[-1].sha256 if self.entries else GENESIS

    def of(self, *kinds: str) -> list[Entry]:
        """The entries of these kinds, in order."""
        return [entry for entry in self.entries if entry.kind in kinds]


def read_ledger(folder: Path) -> Ledger | None:
    """The ledger of a run; None if it has none. Only reads."""
    path = folder / LEDGER
    head, problems = _head(folder)  # before the ledger: a process that is appending is never behind it
    content = _content(path)
    if content is None:
        return None
    lines = content.split(b"\n")
    torn = lines.pop()
    entries: list[Entry] = []
    previous = GENESIS
    for number, line in enumerate(lines, 1):
        entry = _entry(line)
        if entry is None:
            problems.append(f"{path}: line {number} was altered: its checksum does not fit")
            previous = _claimed(line) or previous
            continue
        if entry.previous != previous:
            problems.append(f"{path}: line {number} does not follow the line before it: one was removed or altered")
        entries.append(entry)
        previous = entry.sha256
    cut = 0
    if head is not None:
        count, last = head
        cut = max(0, count - len(lines))
        if not cut and count and not problems and last not in {entry.sha256 for entry in entries}:
            problems.append(f"{path}: the entries are not those that {HEAD} stands for: the ledger was rewritten")
    return Ledger(tuple(entries), tuple(problems), torn, cut)


class Writer:
    """Appends to a run's ledger, from any process; the lines of others are read before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: tuple[int, int, str] | None = None
        """Size of the file, entries and last hash after our latest append."""

    def append(self, notes: Sequence[Note]) -> None:
        """Write these entries in one step and sync them; `StoreError` if that is not possible."""
        if not notes:
            return
        path = self._folder / LEDGER
        try:
            handle = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0))
            with open(handle, "a+b", buffering=0) as file:
                _wait_for(file, path)
                self._append(file, notes)
        except OSError as error:
            self._known = None
            raise StoreError(f"cannot write {path}: {error.strerror or error}") from None

    def _append(self, file: IO[bytes], notes: Sequence[Note]) -> None:
        size = os.fstat(file.fileno()).st_size
        if self._known is None or self._known[0] != size:
            notes = [*self._catch_up(file), *notes]
        assert self._known is not None
        size, number, last = self._known
        at = datetime.now(UTC).isoformat("T", "seconds")
        lines = []
        for kind, data in notes:
            number += 1
            line, last = _line({"n": number, "at": at, "kind": kind, "data": data, "previous": last})
            lines.append(line)
        content = b"".join(lines)
        try:
            _write_all(file, content)
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), size)  # a full disk: no half line stays
            raise
        self._known = (size + len(content), number, last)
        write_bytes(self._folder / HEAD, sealed({"entries": number, "last": last}))

    def _catch_up(self, file: IO[bytes]) -> list[Note]:
        """Read what is there; a torn last line is cut off, and the note that says so is to be written first."""
        file.seek(0)
        content = file.read()
        whole, newline, torn = content.rpartition(b"\n")
        lines = whole.split(b"\n") if newline else []
        repairs: list[Note] = []
        if torn and _entry(torn) is not None:  # only its end is missing
            _write_all(file, b"\n")
            lines.append(torn)
            repairs.append(("repaired", {"bytes": 0, "text": "the end of the last line was missing"}))
        elif torn:
            os.ftruncate(file.fileno(), len(whole) + len(newline))
            repairs.append(("repaired", {"bytes": len(torn), "text": torn[:_KEPT].decode("latin1")}))
        last = _claimed(lines[-1]) if lines else GENESIS
        self._known = (os.fstat(file.fileno()).st_size, len(lines), last or GENESIS)
        return repairs


def _line(fields: Mapping[str, Any]) -> tuple[bytes, str]:
    """An entry as a line, and its hash."""
    body = canonical_json(dict(fields)).encode()
    digest = sha256(body).hexdigest()
    return body[:-1] + f',"sha256":"{digest}"}}\n'.encode(), digest


def _entry(line: bytes) -> Entry | None:
    """The entry in a line; None if the line is not what was written."""
    seal = _SEAL.search(line)
    if seal is None or sha256(line[: seal.start()] + b"}").hexdigest() != seal[1].decode():
        return None
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError):
        return None
    shape = {"n": int, "at": str, "kind": str, "data": dict, "previous": str}
    if not isinstance(tree, dict) or not all(isinstance(tree.get(key), kind) for key, kind in shape.items()):
        return None
    return Entry(tree["n"], tree["at"], tree["kind"], tree["data"], tree["previous"], tree["sha256"])


def _claimed(line: bytes) -> str | None:
    """The hash that a line says it has: what the line after it refers to."""
    seal = _SEAL.search(line)
    return seal[1].decode() if seal else None


def _head(folder: Path) -> tuple[tuple[int, str] | None, list[str]]:
    """Number and hash of the last entry; None and why, if that is not known."""
    path = folder / HEAD
    try:
        tree = read_sealed(path, required=True)
    except DamagedFile as error:
        return None, [f"{error}; whether entries at the end of the ledger were removed cannot be seen"]
    if tree is None:
        return None, []
    count, last = tree.get("entries"), tree.get("last")
    if not isinstance(count, int) or not isinstance(last, str):
        return None, [f"{path} is damaged: it does not name the last entry"]
    return (count, last), []


def _content(path: Path) -> bytes | None:
    """The bytes of the ledger; None if there is none. A line that is just being written is waited for."""
    try:
        content = read_regular(path)
        if content and not content.endswith(b"\n"):
            try:
                with open(open_own(path, os.O_RDWR), "r+b") as file:
                    _wait_for(file, path)
                    content = file.read()
            except (OSError, StoreError):
                pass  # somebody else's folder: what was read is what can be known
        return content
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from None


def _wait_for(file: IO[bytes], path: Path) -> None:
    """Lock the open file, which unlocks when it is closed."""
    deadline = monotonic() + PATIENCE
    while not lock.try_lock(file):
        if monotonic() > deadline:
            raise StoreError(f"cannot write {path}: another process is holding it")
        sleep(0.01)


def _write_all(file: IO[bytes], content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]

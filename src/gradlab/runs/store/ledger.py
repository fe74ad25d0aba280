"""The ledger of a run: what was planned, committed, looked at and changed, one JSON object per line, hash-chained.

    {"at":"2026-05-01T12:00:00+00:00","data":{…},"kind":"plan","n":1,"previous":"000…","sha256":"8c1f…"}

`sha256` is that of the line without it, `previous` that of the line before: an edited, inserted or removed line breaks
the chain. `ledger.json` beside it holds the number and hash of the last entry, so that lines missing at the end show
too. A line is appended under a lock of the file and synced; a line that a dying process left torn is taken out by the
next append, which says so in an entry of its own (`repaired`).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Annotated, Any, Literal

from pydantic import Field

from gradlab.errors import StoreError, shortened
from gradlab.plans.freezing import frozen
from gradlab.plans.plan import Plan
from gradlab.runs.store.files import DamagedFile, open_own, read_fitted, read_regular, sealed, try_lock, write_bytes
from gradlab.runs.store.records import Chunk
from gradlab.spec.base import canonical_json, plain_json
from gradlab.spec.stored import Count, Stored, Whole, read_json
from gradlab.words import counted

LEDGER, HEAD = "ledger.jsonl", "ledger.json"
UNSEEN = "whether entries at the end of the ledger were removed cannot be seen"
GENESIS = "0" * 64
"""What the first entry names as its predecessor."""
PATIENCE = 5.0
"""Seconds to wait for another process that is appending."""
_SEAL = re.compile(rb',"sha256":"([0-9a-f]{64})"\}$')
_KEPT = 500
"""Letters of a torn line that are kept in the entry that repairs it."""

Note = tuple[str, Mapping[str, Any]]
"""Kind and data of an entry that is to be appended."""


class _Group(Stored):
    name: str
    id: str


class _FrozenGroup(_Group):
    settings: dict[str, Any]


class _Claim(Stored):
    text: str


class _Tuning(Stored):
    groups: list[_Group]
    seeds: list[Whole]


class _Earlier(Stored):
    moved_to: str
    trials: Count
    attempt: Count = 0


class _Begun(Stored):
    attempt: Annotated[int, Field(ge=1, le=10**6)] = 1
    earlier: _Earlier | None = None
    unknown: Literal["lost"] | None = None


class _Plan(Stored):
    id: str
    claims: list[_Claim]
    seeds: list[Whole]
    groups: list[_FrozenGroup]
    fields: dict[str, Any]
    tuning: _Tuning | None = None
    labels: dict[str, str] = Field(default_factory=dict)


class _Round(Stored):
    round: Count
    seeds: dict[str, Count]


class _Tuned(_Tuning):
    chosen: dict[str, dict[str, Any]]


Results = list[Annotated[list[str], Field(min_length=2, max_length=3)]]
"""Id, digest and, unless it is `done`, status of each trial of a chunk."""


class _Chunk(Stored):
    chunk: str
    trials: Results


class _Trials(_Chunk):
    manifest: str
    found: str | None = None


class _Altered(_Trials):
    was: Results


class _SetAside(_Chunk):
    kept: str


class _Written(Stored):
    files: dict[str, str] = Field(default_factory=dict)


class _OpenClaim(Stored):
    claim: Count
    seeds: Count
    wanted: Count | None
    seconds: float | None


class _Look(_Written):
    results: str = ""
    open: list[_OpenClaim] = Field(default_factory=list)


class _Cut(Stored):
    entries: Count


class _Head(Stored):
    """What `ledger.json` holds."""

    entries: Count
    last: str


KINDS: Mapping[str, type[Stored]] = {
    "begun": _Begun, "plan": _Plan, "trials": _Trials, "round": _Round, "tuned": _Tuned, "look": _Look,
    "written": _Written, "set_aside": _SetAside, "missing": _Chunk, "altered": _Altered, "cut": _Cut,
}  # fmt: skip
"""Kind of an entry -> what its data have to be; what is not named here is not read."""


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
    return read_chain(folder / LEDGER, folder / HEAD, KINDS)


def read_chain(path: Path, head_path: Path, kinds: Mapping[str, type[Stored]]) -> Ledger | None:
    """The hash-chained entries in a file, whose number and last hash `head_path` holds; None if there is no file."""
    head, problems = _head(head_path)  # before the ledger: a process that is appending is never behind it
    content = _content(path)
    if content is None:
        return None
    lines = content.split(b"\n")
    torn = lines.pop()
    if head is None and lines and not problems and not head_path.exists():
        problems.append(f"{head_path} is missing; {UNSEEN}")
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
        previous = entry.sha256
        try:
            kinds.get(entry.kind, Stored).fit(entry.data)
        except ValueError as error:
            problems.append(
                f"{path}: line {number} does not have the shape of a {shortened(entry.kind)} entry: {error}"
            )
            continue
        entries.append(entry)
    cut = 0
    if head is not None:
        cut = max(0, head.entries - len(lines))
        hashes = {entry.sha256 for entry in entries}
        if not cut and head.entries and not problems and head.last not in hashes:
            problems.append(
                f"{path}: the entries are not those that {head_path.name} stands for: the ledger was rewritten"
            )
    return Ledger(tuple(entries), tuple(problems), torn, cut)


class ChainWriter:
    """Appends to a file of hash-chained entries, from any process; the lines of others are read before."""

    def __init__(self, path: Path, head_path: Path) -> None:
        self._path, self._head_path = path, head_path
        self._known: tuple[int, int, str] | None = None
        """Size of the file, entries and last hash after our latest append."""

    def append(self, notes: Sequence[Note]) -> None:
        """Write these entries in one step and sync them; `StoreError` if that is not possible."""
        if not notes:
            return
        path = self._path
        try:
            handle = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0))
            with open(handle, "a+b", buffering=0) as file:
                wait_for(file, path)
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
        write_bytes(self._head_path, sealed({"entries": number, "last": last}))

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


class LedgerWriter(ChainWriter):
    """Appends to a run's ledger.

    begun      the folder was taken: which attempt it is, and where an earlier run was moved to
    plan       claims, seeds, groups and settings, before the first trial and whenever they change
    trials     a committed chunk: hash of its manifest; id, digest and status of each trial
    round      seeds were added by the study's own rule, because claims were open: how many each group has now
    tuned      each arm's values were chosen from the tuning trials: which, and the ids under which they are judged
    look       verdicts were computed: on how many trials, which, and the hashes of the files that show them
    written    the same verdicts were shown in other files, or the study's own files were written again: their hashes
    set_aside, missing, altered, cut, repaired
               what was found when the folder was taken again
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / LEDGER, folder / HEAD)
        self._folder = folder
        self._files: dict[str, str] | None = None
        """Recorded hashes of files for readers, once they were read."""
        self.earlier: Mapping[str, Any] | None = None
        """The run that was moved aside to make room for this one."""
        self.aside: list[Mapping[str, Any]] = []
        """Damaged chunks that were set aside when the folder was taken."""

    def begin(self, plan: Plan, chunks: Sequence[Chunk]) -> list[str]:
        """Freeze the plan before its first trial, and record what is not as the ledger left it; gives remarks."""
        ledger = read_ledger(self._folder)
        notes, remarks = (self._first(chunks), []) if ledger is None else self._differences(ledger, chunks)
        now, plans = frozen(plan), ledger.of("plan") if ledger is not None else []
        if not plans or any(plans[-1].data.get(key) != now[key] for key in ("id", "labels")):
            notes.append(("plan", now))
        self.append(notes)
        return remarks

    def describe(self, files: Mapping[str, str]) -> None:
        """Record the hashes of files before they are written again; the first look has what was written by then."""
        if self._files is None:
            ledger = read_ledger(self._folder)
            self._files = {} if ledger is None else recorded_files(ledger)
        if self._files and any(self._files.get(name) != hashed for name, hashed in files.items()):
            self._files |= files
            self.append([("written", {"files": dict(self._files)})])

    def choose(self, plan: Plan, results: str) -> None:
        """Record the choice that a tuning came to, unless it is the one that was recorded last."""
        data, ledger = _choice_data(plan, results), read_ledger(self._folder)
        before = ledger.of("tuned") if ledger is not None else []
        if not before or dict(before[-1].data) != data:
            self.append([("tuned", data)])

    def extend(self, plan: Plan, number: int) -> None:
        """Record the seeds of a round, unless an earlier process did."""
        seeds = {planned.group.name: plan.seed_count(planned) for planned in plan.groups}
        data, ledger = {"round": number, "seeds": seeds}, read_ledger(self._folder)
        if ledger is None or all(dict(entry.data) != data for entry in ledger.of("round")):
            self.append([("round", data)])

    def _first(self, chunks: Sequence[Chunk]) -> list[Note]:
        beside = len(attempts_beside(self._folder))
        begun: dict[str, Any] = {"attempt": 1 + beside}
        if self.earlier is not None:
            begun = {"attempt": 1 + max(beside, self.earlier.get("attempt", 0)), "earlier": dict(self.earlier)}
        if chunks:
            begun["unknown"] = "lost"
        return [("begun", begun), *(_chunk_note(chunk, "before") for chunk in chunks)]

    def _differences(self, ledger: Ledger, chunks: Sequence[Chunk]) -> tuple[list[Note], list[str]]:
        """Entries for all that happened to the folder since the last one, and what to tell the user."""
        notes: list[Note] = []
        remarks: list[str] = []
        if ledger.cut:
            notes.append(("cut", {"entries": ledger.cut}))
            remarks.append(f"the ledger of {self._folder} lacks its last {counted(ledger.cut, 'entry', 'entries')}")
        present = {chunk.path.name: chunk for chunk in chunks}
        known = committed_chunks(ledger)
        for aside in self.aside:
            was = known.pop(str(aside["chunk"]), {})
            notes.append(("set_aside", {**aside, "trials": list(was.get("trials", ()))}))
        for name, data in known.items():
            if name not in present:
                notes.append(("missing", {"chunk": name, "trials": data["trials"]}))
                trials = counted(len(data["trials"]), "finished trial")
                remarks.append(f"chunk {name} of {self._folder}, with {trials}, was removed; its trials are run again")
            elif present[name].sha256 != data["manifest"]:
                _, now = _chunk_note(present[name], "altered")
                notes.append(("altered", {**now, "was": data["trials"]}))
                remarks.append(f"chunk {name} of {self._folder} is not the one that was committed")
        for name, chunk in present.items():
            if name not in known:
                notes.append(_chunk_note(chunk, "later"))
        return notes, remarks

    def commit(self, chunk: Chunk, origin: str | None = None, replaces: Sequence[str] = ()) -> None:
        """A chunk was committed; `origin` says where its results come from, if trials were not just run.

        `adopted`: they were there before the plan was frozen; `condensed`: they are those of the chunks it replaces;
        `thinned`: so are they, but curves and layers have fewer rows or digits.
        """
        kind, data = _chunk_note(chunk, origin)
        self.append([(kind, {**data, **({"replaces": list(replaces)} if replaces else {})})])


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
        tree = read_json(line)
    except ValueError:
        return None
    shape = {"n": int, "at": str, "kind": str, "data": dict, "previous": str}
    if not isinstance(tree, dict) or not all(isinstance(tree.get(key), kind) for key, kind in shape.items()):
        return None
    return Entry(tree["n"], tree["at"], tree["kind"], tree["data"], tree["previous"], tree["sha256"])


def _claimed(line: bytes) -> str | None:
    """The hash that a line says it has: what the line after it refers to."""
    seal = _SEAL.search(line)
    return seal[1].decode() if seal else None


def _head(path: Path) -> tuple[_Head | None, list[str]]:
    """Number and hash of the last entry; None and why, if that is not known."""
    try:
        return read_fitted(path, _Head.fit), []
    except DamagedFile as error:
        return None, [f"{error}; {UNSEEN}"]


def _content(path: Path) -> bytes | None:
    """The bytes of the ledger; None if there is none. A line that is just being written is waited for."""
    try:
        content = read_regular(path)
        if content and not content.endswith(b"\n"):
            try:
                with open(open_own(path, os.O_RDWR), "r+b") as file:
                    wait_for(file, path)
                    content = file.read()
            except (OSError, StoreError):
                pass  # somebody else's folder: what was read is what can be known
        return content
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from None


def wait_for(file: IO[bytes], path: Path, patience: float = PATIENCE) -> None:
    """Lock the open file, which unlocks when it is closed."""
    deadline = monotonic() + patience
    while not try_lock(file):
        if monotonic() > deadline:
            raise StoreError(f"cannot write {path}: another process is holding it")
        sleep(0.01)


def _write_all(file: IO[bytes], content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]


def _choice_data(plan: Plan, results: str) -> dict[str, Any]:
    """The entry of a choice: the values of each arm, and the groups that are run at the judging seeds."""
    tuning = plan.tuning
    assert tuning is not None
    assert tuning.chosen is not None
    untuned = tuning.untuned.groups if tuning.untuned is not None else ()
    data = {
        "by": tuning.tune.by,
        "results": results,
        "chosen": {arm: dict(candidate.values) for arm, candidate in tuning.chosen.items()},
        "seeds": list(plan.study.trial_seeds),
        "groups": [{"name": planned.group.name, "id": planned.id} for planned in (*plan.groups, *untuned)],
    }
    plain: dict[str, Any] = plain_json(data)
    return plain


def _chunk_note(chunk: Chunk, origin: str | None = None) -> Note:
    """The entry of a chunk. `origin` says how it came here, if not by being committed."""
    table = chunk.table("trials")
    columns = (table[name].to_pylist() for name in ("trial", "digest", "status"))
    rows = [[trial, digest, *([how] if how != "done" else [])] for trial, digest, how in zip(*columns, strict=True)]
    data = {"chunk": chunk.path.name, "manifest": chunk.sha256, "trials": rows}
    return "trials", {**data, **({"found": origin} if origin else {})}


def committed_chunks(ledger: Ledger) -> dict[str, dict[str, Any]]:
    """Chunk -> its latest entry, without those that are known to be gone."""
    chunks: dict[str, dict[str, Any]] = {}
    for entry in ledger.of("trials", "altered", "set_aside", "missing"):
        for name in (entry.data["chunk"], *entry.data.get("replaces", ())):
            chunks.pop(name, None)
        if entry.kind in ("trials", "altered"):
            chunks[entry.data["chunk"]] = dict(entry.data)
    return chunks


def record_look(folder: Path, look: Mapping[str, Any], files: Mapping[str, str]) -> str | None:
    """Append a look to the ledger, with the hashes of the files that show it; gives the reason if that is not possible.

    A look that sees what the last one saw is not another one; if its files are others, they are recorded (`written`).
    Runs without a ledger stay without one: it is begun when the run is continued.
    """
    try:
        ledger = read_ledger(folder)
        if ledger is None:
            return None
        looks = ledger.of("look")
        plans = ledger.of("plan")
        before = {name: value for name, value in looks[-1].data.items() if name != "files"} if looks else {}
        if before != dict(look) or looks[-1].number < (plans[-1].number if plans else 0):
            LedgerWriter(folder).append([("look", {**look, "files": dict(files)})])
        elif recorded_files(ledger) != dict(files):
            LedgerWriter(folder).append([("written", {"files": dict(files)})])
    except StoreError as error:
        return str(error)
    return None


def recorded_files(ledger: Ledger) -> dict[str, str]:
    """File -> the hash with which it was written last; empty of runs whose looks do not say it."""
    entries = [entry for entry in ledger.of("look", "written") if "files" in entry.data]
    return dict(entries[-1].data["files"]) if entries else {}


def look_data(
    by_group: Mapping[str, Sequence[str]],
    results: str,
    verdicts: Iterable[str],
    open_claims: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """What a look saw: finished trials of every group (one number if all have as many), failures, verdicts."""
    counts = {name: sum(status != "failed" for status in statuses) for name, statuses in by_group.items()}
    failed = Counter(status for statuses in by_group.values() for status in statuses)["failed"]
    same = set(counts.values())
    return {
        "results": results,
        "finished": same.pop() if len(same) == 1 else counts,
        "failed": failed,
        "verdicts": list(verdicts),
        **({"open": list(open_claims)} if open_claims else {}),
    }


def attempts_beside(path: Path) -> list[Path]:
    """Runs that were moved aside from this folder, `NAME~1`, `NAME~2`, …, as far as they still lie beside it."""
    pattern = re.compile(re.escape(path.name) + r"~(\d+)")
    try:
        beside = [(pattern.fullmatch(place.name), place) for place in path.absolute().parent.iterdir()]
    except OSError:
        return []
    return [place for _, place in sorted((int(match[1]), place) for match, place in beside if match)]


def attempt_of(folder: Path) -> int:
    """Which attempt a run is, by its own ledger; 0 where that is not known."""
    return max((entry.data.get("attempt", 1) for entry in _entries(folder, "begun")), default=0)


def open_claims(folder: Path) -> tuple[Mapping[str, Any], ...]:
    """What the latest look left open, by claim."""
    looks = _entries(folder, "look")
    return tuple(looks[-1].data.get("open", ())) if looks else ()


def seeds_first_seen(folder: Path) -> tuple[int, ...]:
    """The planned seeds in the order in which the ledger first names them; empty where nobody can say.

    Tests of the first so many seeds go by it, so that a seed that is added later, however it is numbered, never takes
    the place of one that was there before.
    """
    return tuple(dict.fromkeys(seed for entry in _entries(folder, "plan") for seed in entry.data["seeds"]))


def _entries(folder: Path, kind: str) -> list[Entry]:
    """The entries of a kind; none where the ledger is missing or cannot be read."""
    try:
        ledger = read_ledger(folder)
    except StoreError:
        return []
    return ledger.of(kind) if ledger is not None else []

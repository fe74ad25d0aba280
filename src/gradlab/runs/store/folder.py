"""A run's folder: the study as it was resolved, the plan, the environment, the results, the report.

runs/identity/
  study.yaml  resolved.yaml  plan.json  environment.json  parts/     what was run, and where
  audit.json  layers.json  microworld.json                           what a report needs besides the results
  ledger.jsonl  ledger.json                                          what was planned, committed, seen (see ledger.py)
  results/000001/ …                                                  committed results (see records.py)
  report.md  figures/                                                made from the results, at any time
  lock  progress.json                                                who is writing, and the progress

Only the process that holds the lock writes results. `plan.json` is written whole and holds the study, the plan and the
names of the part files: one file decides what the folder is. A finished trial is never run again: a folder is continued
as long as it has trials in common with the plan; otherwise it is moved aside, never overwritten.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import ConfigDict, RootModel, ValidationError

from gradlab.audits.audit import Audit
from gradlab.errors import StoreError, shortened
from gradlab.plans.plan import Plan
from gradlab.plans.saving import PARTS, check_saved, saved, saved_files, saved_phases
from gradlab.runs.store import records as records_file
from gradlab.runs.store.environment import checked_environment, other_numerics, together_with
from gradlab.runs.store.files import (
    LOCK,
    DamagedFile,
    Lock,
    free_name,
    move,
    read_fitted,
    read_regular,
    read_sealed,
    sealed,
    write_bytes,
)
from gradlab.runs.store.ledger import HEAD, LEDGER, LedgerWriter, attempt_of, seeds_first_seen
from gradlab.runs.store.records import MANIFEST, RESULTS, Chunk, MemoryChunk, Records, chunk_paths, commit, read_chunks
from gradlab.runs.store.tables import NAMES
from gradlab.spec.messages import first_problem
from gradlab.trials.outcome import TrialResult
from gradlab.trials.trial import trial_id

T = TypeVar("T")
Thin = Callable[[str, Any], Any]
"""Name and content of a table -> what is kept of it."""
FORMAT = 5
MOST_KEPT_ROWS = 5_000_000
"""Rows of committed tables that stay in memory, so that the report does not read back what was just written."""
PLAN, ENVIRONMENT = "plan.json", "environment.json"
AUDIT, MICROWORLD, LAYER_NAMES = "audit.json", "microworld.json", "layers.json"
"""JSON files that are read back; each holds its checksum."""
WRITING, DAMAGED = ".writing", "damaged"
WATCH = "watch.jsonl"
"""The file of a watch on the disk (`comparing/live.py`)."""
_REMEDY = {
    AUDIT: "whether the comparison is fair is not known until the study is run again",
    MICROWORLD: "the micro-world is left out; `gradlab report RUN --seed N` makes it again",
    LAYER_NAMES: "layers are shown by their numbers",
    ENVIRONMENT: "versions and machine are not known",
}
_TEMPORARY = re.compile(r"\.[a-z]+\.[a-z]+\.\d+\.tmp")
"""What a process leaves that dies between writing and renaming."""


class RunFolder:
    """The folder of a run: anybody reads it and writes its report, the process that holds its lock writes results.

    `RunFolder(path)` reads nothing yet, `RunFolder.open` refuses what is not a run, `RunFolder.start` takes the lock.
    When a run is read, a damaged file gets a note, and the rest is still shown.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        """What the user has to know: a run moved aside, a damaged file, as far as it has been read."""
        self.written: dict[str, str] = {}
        """SHA-256 of every file that was written by this object, by name, the plan aside: the ledger has it whole."""
        self._lock: Lock | None = None
        self._ledger = LedgerWriter(path)
        self._chunks: list[Chunk] = []
        self._number = 0
        """Of the latest chunk."""
        self._kept_rows = 0

    @staticmethod
    def open(path: Path) -> RunFolder:
        """The folder of a run, to be read; a `StoreError` says why there is none."""
        folder = RunFolder(path)
        folder.plan, folder.records  # noqa: B018 - read now: what cannot be opened is refused here
        return folder

    @staticmethod
    def start(
        path: Path,
        plan: Plan,
        environment: Mapping[str, Any],
        command: str = "gradlab run study.yaml",
        *,
        force: bool = False,
        mixed: bool = False,
    ) -> RunFolder:
        """Take the folder for this plan: continued, new, or new beside the old one.

        `force` starts a new run in any case; `mixed` continues under other versions or another processor.
        """
        folder = RunFolder(path.absolute())
        folder._take()
        try:
            before = folder._plan_before()
            if (force and (before is not None or folder._chunks)) or not folder._continues(plan, before):
                folder = folder._moved_aside()
            begun = folder._environment_before(mixed)
            if begun is not None:
                folder._check_environment(plan, begun, environment, mixed)
                environment = together_with(begun, environment)
            folder.environment = {**environment, "format": FORMAT}
            folder.notes += folder._ledger.begin(plan, folder._chunks)
            folder._describe(plan, command)
        except BaseException:
            folder.release()
            raise
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def release(self) -> None:
        """Let another process write to the folder."""
        if self._lock is not None:
            self._lock.release()

    # ------------------------------------------------------------------ what is there

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The saved plan as plain data."""
        return plan_of(self.path)

    @cached_property
    def records(self) -> Records:
        """All committed results that can be read. Tables that have been read or written are not read again."""
        if self._lock is not None:
            return Records(self._chunks, seeds_first_seen(self.path))
        records, damaged = committed(self.path, whole=True)
        self.notes += damaged
        return records

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions and machine: where the run was begun, and where else it was continued; empty if unknown."""
        return self.read(ENVIRONMENT, checked_environment) or {}

    @cached_property
    def audit(self) -> Audit | None:
        """Whether the comparison is fair; None if it was never audited."""
        return self.read(AUDIT, Audit.from_json)

    @cached_property
    def layer_names(self) -> dict[str, Sequence[str]]:
        """Group id -> the names of its layers, from this call and earlier ones."""
        return self.read(LAYER_NAMES, _checked_names) or {}

    def read(self, name: str, parse: Callable[[dict[str, Any]], T]) -> T | None:
        """A parsed file of the folder; None if it is missing or damaged. Who holds the lock removes a damaged one."""
        try:
            return read_fitted(self.path / name, parse)
        except DamagedFile as error:
            self.notes.append(f"{error}; {_REMEDY[name] if self._lock is None else 'it is rewritten'}")
            if self._lock is not None:
                (self.path / name).unlink(missing_ok=True)
            return None

    # ------------------------------------------------------------------ files beside the results

    def write_sealed(self, name: str, value: Mapping[str, Any], *, indent: int | None = 1) -> Path:
        """An object that is read back later, with its checksum, which anybody can compute: its hash is recorded too."""
        content = sealed(value, indent)
        if name != PLAN:
            self._ledger.describe({name: sha256(content).hexdigest()})
            return self.write_file(name, content)
        return self._write(name, content)

    def write_text(self, name: str, text: str) -> Path:
        """A text file such as the report."""
        return self.write_file(name, text.encode())

    def write_file(self, name: str, content: bytes) -> Path:
        """Any file, such as a figure."""
        path = self._write(name, content)
        self.written[name] = sha256(content).hexdigest()
        return path

    def _write(self, name: str, content: bytes) -> Path:
        self._require_inside(name)
        write_bytes(self.path / name, content)
        return self.path / name

    def _require_inside(self, name: str) -> None:
        """Refuse a folder in the run's folder that is a link to somewhere else."""
        folder = (self.path / name).parent
        if not folder.resolve().is_relative_to(self.path.resolve()):
            raise StoreError(f"{folder} leads out of the run's folder; remove the link and try again")

    def clear_figures(self, names: Iterable[str], keep: Collection[str] = ()) -> None:
        """Remove the figures of an earlier report, by name: other files in the folder are not ours."""
        files = [f"{name}.{kind}" for name in names for kind in ("png", "svg", "pdf", "csv")]
        self._require_inside("figures/any")
        try:
            for file in files:
                if file not in keep:
                    (self.path / "figures" / file).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot clear {self.path / 'figures'}: {error.strerror or error}") from None

    def keep_microworld(self, recording: Mapping[str, Any]) -> None:
        """Keep what happened inside two arms, as plain data."""
        self.write_sealed(MICROWORLD, recording, indent=None)

    def keep_audit(self, audit: Audit) -> None:
        """Keep whether the comparison is fair."""
        self.write_sealed(AUDIT, audit.to_json())

    def keep_layer_names(self, by_id: Mapping[str, Sequence[str]]) -> None:
        """Add the names of layers, by group id."""
        self.layer_names.update({identity: list(names) for identity, names in by_id.items()})
        if by_id:
            self.write_sealed(LAYER_NAMES, self.layer_names)

    # ------------------------------------------------------------------ taking the folder

    def _take(self) -> None:
        """Lock the folder, made if need be, and check every chunk; somebody's other files are refused."""
        path = self.path
        try:
            names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
        except OSError as error:
            raise StoreError(f"cannot use the run's folder {shortened(str(path))}: {error.strerror or error}") from None
        if not _is_ours(path, names):
            raise StoreError(f"{path} is not empty and not a run of gradlab; choose another folder with --out")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"cannot make the run's folder {shortened(str(path))}: {reason}") from None
        self._lock = Lock.take(path)
        try:
            for name in filter(_TEMPORARY.fullmatch, names):
                (path / name).unlink(missing_ok=True)
            self._gather_chunks()
        except OSError as error:
            self.release()
            raise StoreError(f"cannot use the run's folder {path}: {error.strerror or error}") from None
        except BaseException:
            self.release()
            raise

    def _gather_chunks(self) -> None:
        """Open and check every chunk; a damaged one is set aside, and its trials run again."""
        shutil.rmtree(self.path / WRITING, ignore_errors=True)
        self._number = max((int(path.name) for path in chunk_paths(self.path)), default=0)
        self._chunks, damaged = read_chunks(self.path, Chunk.verify)
        for path, error in damaged.items():
            place = free_name(self.path / DAMAGED / path.name)
            self.notes.append(f"{error}; it is kept as {place}")
            self._ledger.aside.append({"chunk": path.name, "kept": f"{DAMAGED}/{place.name}"})
            move(path, place)

    def _plan_before(self) -> dict[str, Any] | None:
        """The plan in the folder; a damaged one is rewritten from the current study."""
        try:
            return _read_plan(self.path)
        except DamagedFile as error:
            self.notes.append(f"{error}; it is rewritten")
            return None

    def _environment_before(self, mixed: bool) -> dict[str, Any] | None:
        path = self.path / ENVIRONMENT
        try:
            environment = read_fitted(path, checked_environment)
            if environment is not None or not self._chunks:
                return environment
            problem = f"{path} is missing"
        except DamagedFile as error:
            problem = str(error)
        if not mixed:
            raise StoreError(
                f"{problem}, so that it is not known where the run was begun; --mixed continues it all the same"
            )
        self.notes.append(f"{problem}; it is rewritten")
        return None

    def _continues(self, plan: Plan, before: Mapping[str, Any] | None) -> bool:
        """Whether the folder holds nothing yet, or results of this plan among others; refuses other numerics."""
        stored = self.records.status.keys()
        if stored and before is not None:
            self._refuse_other_numerics(plan, before, stored)
        return not stored or not stored.isdisjoint(trial.id for trial in plan.all_trials)

    def _refuse_other_numerics(self, plan: Plan, before: Mapping[str, Any], stored: Collection[str]) -> None:
        """What was computed under another numerics version of an engine is not mixed, nor silently run again."""
        tuning = plan.tuning
        tried = (*tuning.plan.groups, *tuning.base.groups) if tuning is not None else ()
        now = {group.content: group for group in (*plan.groups, *tried)}
        for group, seeds in (pair for phase in saved_phases(before).values() for pair in phase):
            same = now.get(group["content"])
            if same is None or same.numerics == group["numerics"]:
                continue
            if any(trial_id(group["id"], seed) in stored for seed in seeds):
                raise StoreError(
                    f"{self.path} was begun with other numerics ({group['name']}: {group['numerics']}, now "
                    f"{same.numerics}), and results of the two are not to be mixed; --force starts afresh beside it, "
                    "--out in another folder"
                )

    def _check_environment(self, plan: Plan, before: Mapping[str, Any], now: Mapping[str, Any], mixed: bool) -> None:
        finished = self.records.finished
        others = other_numerics(before, now)
        if not finished or not others or mixed or all(trial.id in finished for trial in plan.all_trials):
            return
        raise StoreError(
            f"{self.path} was begun elsewhere ({'; '.join(others)}), where the same trial may give other bits; "
            "--mixed continues it all the same and says so in the report, --force starts afresh beside it"
        )

    def _moved_aside(self) -> RunFolder:
        """Rename this run to the first free `NAME~1`, `NAME~2`, … and begin a new one in its place."""
        place = free_name(self.path)
        earlier = {"moved_to": place.name, "trials": len(self.records.finished), "attempt": attempt_of(self.path)}
        move(self.path, place)
        self.release()
        folder = RunFolder(self.path)
        folder._take()
        folder._ledger.earlier = earlier
        folder.notes.append(f"the run that was in {self.path} is now in {place}")
        return folder

    # ------------------------------------------------------------------ writing under the lock

    def _describe(self, plan: Plan, command: str) -> None:
        files = saved_files(plan)
        parts = {name: content for name, content in files.items() if name.startswith(f"{PARTS}/")}
        self._ledger.describe({name: sha256(files[name]).hexdigest() for name in files if name not in parts})
        shutil.rmtree(self.path / PARTS, ignore_errors=True)
        for name, content in parts.items():
            self._write(name, content)
        self.write_sealed(PLAN, {"format": FORMAT, "command": command, **saved(plan)})
        self.write_sealed(ENVIRONMENT, self.environment)
        for name, content in files.items():
            if name not in parts:
                self.write_file(name, content)

    def keep_choice(self, plan: Plan, results: str, command: str) -> None:
        """Record at which values the arms are judged; `results` is the hash of the tuning trials that decided it.

        The ledger first: a process that dies in between leaves a plan that is pending, and the next makes the choice
        again from the same results.
        """
        self._ledger.choose(plan, results)
        self._describe(plan, command)

    def keep_seeds(self, plan: Plan, number: int, command: str) -> None:
        """Record that groups get more seeds, by the study's own rule, in this round."""
        self._ledger.extend(plan, number)
        self._describe(plan, command)

    def keep_environments(self, others: Sequence[Mapping[str, Any]]) -> None:
        """Record other environments in which trials of this run were trained."""
        together = self.environment
        for other in others:
            together = together_with(together, other)
        if together != self.environment:
            self.environment = together
            self.write_sealed(ENVIRONMENT, self.environment)

    def adopt(self, records: Records) -> None:
        """Add results from elsewhere, but for those that are already here."""
        before = self.records
        for chunk in records.chunks:
            table = chunk.table("trials")
            digests = dict(zip(table["trial"].to_pylist(), table["digest"].to_pylist(), strict=True))
            new = {
                trial
                for trial, digest in digests.items()
                if trial not in before.finished and before.digests.get(trial) != digest
            }
            if new:
                self._commit(chunk.loaded().only(new), origin="adopted")

    def commit(self, results: Sequence[TrialResult]) -> None:
        """Add these results; after this they survive anything but the loss of the disk."""
        for result in results:  # before the results: whoever finds those finds these
            for name, content in result.files.items():
                self._write(name, content)
        self._commit(MemoryChunk.of(results))

    def _commit(self, memory: MemoryChunk, origin: str | None = None) -> None:
        for piece in memory.pieces():
            assert self._lock is not None
            self._lock.check(self.path)
            chunk = commit(self._next_chunk(), piece, self.path / WRITING)
            self._number += 1
            self._kept_rows += sum(piece.count_rows(name) for name in NAMES)
            if self._kept_rows <= MOST_KEPT_ROWS:
                chunk.keep_tables(piece.tables)
            self._chunks.append(chunk)
            self.__dict__.pop("records", None)
            self._ledger.commit(chunk, origin)

    def _next_chunk(self) -> Path:
        return self.path / RESULTS / f"{self._number + 1:06d}"

    def condense(self, thin: Thin | None = None) -> None:
        """Write all results as one chunk without weights; the ledger says which chunks it replaces."""
        records = self.records
        tables = {"trials": records.trials, "curves": records.curves(), "layers": records.layers()}
        if thin is not None:
            tables |= {name: thin(name, tables[name]) for name in ("curves", "layers")}
        chunk = commit(self._next_chunk(), MemoryChunk(tables, {}), self.path / WRITING, without_weights=True)
        origin = "condensed" if thin is None else "thinned"
        self._ledger.commit(chunk, origin, replaces=[old.path.name for old in self._chunks])
        for old in self._chunks:
            shutil.rmtree(old.path)


def condense(path: Path, thin: Thin | None = None) -> None:
    """Write the results of a run as one chunk without weights, for keeping.

    `thin` makes the tables `curves` and `layers` smaller, from their name and content; trials are kept as they are.
    A process that dies in between leaves both, which hold the same results; the next call removes what it replaced.
    """
    with RunFolder(path.absolute()) as folder:
        folder._take()
        folder.condense(thin)


def move_aside(path: Path) -> Path:
    """Rename a run that nobody is writing to the first free `NAME~1`, `NAME~2`, …; return its new place."""
    lock = Lock.take(path)
    try:
        place = free_name(path)
        move(path, place)
        return place
    finally:
        lock.release()


def _is_ours(path: Path, names: set[str]) -> bool:
    """A folder of ours has a plan that says so, or results; or it has only what dies with a process that just began."""
    beginnings = {name for name in names if name in (LOCK, WRITING, PARTS, LEDGER, HEAD) or _TEMPORARY.fullmatch(name)}
    if names <= beginnings:
        return True
    with suppress(OSError):
        plan = read_regular(path / PLAN)
        if b'"format"' in plan and b'"groups"' in plan:
            return True
    return any((chunk / MANIFEST).is_file() for chunk in chunk_paths(path))


def plan_of(folder: Path) -> dict[str, Any]:
    """Return the saved plan of a run; a `StoreError` if there is none."""
    try:
        exists, is_folder = folder.exists(), folder.is_dir()
    except OSError as error:
        raise StoreError(f"{shortened(str(folder))}: {error.strerror or error}") from None
    if not exists:
        raise StoreError(f"{folder} does not exist; `gradlab run` creates runs/STUDY, or the folder given by --out")
    if not is_folder:
        raise StoreError(f"{folder} is a file; give a run folder, such as runs/identity")
    try:
        plan = _read_plan(folder)
    except DamagedFile as error:
        raise DamagedFile(f"{error}; run the same `gradlab run` command to rewrite it; the results are kept") from None
    if plan is None and (folder / WATCH).is_file():
        raise StoreError(
            f"{folder} holds a watch on the disk ({WATCH}), which is not a run yet: `gradlab report {folder}` makes "
            f"one of it in {folder / 'run'}, and `gradlab export` gives its numbers as they are"
        )
    if plan is None:
        raise StoreError(f"{folder} is not a gradlab run: it has no plan.json")
    return plan


def _read_plan(folder: Path) -> dict[str, Any] | None:
    """The saved plan of a run, checked; None where there is none."""
    path = folder / PLAN
    tree = read_sealed(path)
    if tree is None:
        return None
    version = tree.get("format")
    if version != FORMAT:
        newer = isinstance(version, int) and version > FORMAT
        hint = "update gradlab to read it" if newer else "run its study.yaml again with --out and another folder"
        raise StoreError(
            f"{folder} was written in format {shortened(version)}, and this gradlab reads format {FORMAT}; {hint}"
        )
    try:
        check_saved(tree)
    except ValueError as error:
        raise DamagedFile.at(path, str(error)) from None
    return tree


def committed(folder: Path, *, whole: bool = False) -> tuple[Records, tuple[str, ...]]:
    """Return the committed results that can be read, and a line for each chunk that cannot.

    `whole`: whether all three tables of a chunk are checked now, and not only its trials, unless they are very large:
    then a report leaves out a damaged chunk and tells the rest.
    """
    rows = 0

    def check(chunk: Chunk) -> None:
        nonlocal rows
        chunk.table("trials")
        rows += sum(chunk.count_rows(name) for name in NAMES)
        if whole and rows <= records_file.MOST_ROWS:
            chunk.check_tables()

    chunks, damaged = read_chunks(folder, check)
    # a chunk that is gone by now was just moved aside by the process that runs the study
    lines = tuple(str(error) for path, error in damaged.items() if os.path.lexists(path))
    return Records(chunks, seeds_first_seen(folder)), lines


class _SavedNames(RootModel[dict[str, list[str]]]):
    """What `layers.json` holds."""

    model_config = ConfigDict(strict=True)


def _checked_names(tree: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Group id -> the names of its layers; a `ValueError` where it is something else."""
    try:
        return {**_SavedNames.model_validate(tree).root}
    except ValidationError as error:
        where, message = first_problem(error, tree)
        raise ValueError(f"{where}: {message}") from None


def names_by_group(plan: Plan, by_id: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Group -> the names of its layers, from what a run's folder keeps by group id."""
    return {planned.group.name: by_id[planned.id] for planned in plan.groups if planned.id in by_id}

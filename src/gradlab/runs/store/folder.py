"""A run's folder: the study as it was resolved, the plan, the environment, the results, the report.

runs/identity/
  study.yaml  resolved.yaml  plan.json  environment.json  parts/     what was run, and where
  ledger.jsonl  ledger.json                                          what was planned, committed, seen (see ledger.py)
  results/000001/ …                                                  committed results (see chunks.py)
  report.md  figures/                                                made from the results, at any time
  lock  progress.json                                                who is writing, and the progress

Only the process that holds the lock writes results. `plan.json` is written whole and holds the study, the plan and the
names of the part files: one file decides what the folder is. A finished trial is never run again: a folder is continued
as long as it has trials in common with the plan; otherwise it is moved aside, never overwritten.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gradlab.audits.audit import Audit
from gradlab.errors import StoreError, shortened
from gradlab.plans.plan import Plan
from gradlab.plans.saving import PARTS, check_saved, saved, saved_files, saved_phases
from gradlab.runs.store import report_folder
from gradlab.runs.store.chunks import MANIFEST, Chunk, DamagedChunk, MemoryChunk, commit
from gradlab.runs.store.environment import checked_environment, other_numerics
from gradlab.runs.store.files import DamagedFile, free_name, move, read_fitted, read_regular, read_sealed
from gradlab.runs.store.ledger import HEAD, LEDGER, Account, attempt_of, seeds_first_seen
from gradlab.runs.store.lock import Lock
from gradlab.runs.store.records import Records
from gradlab.runs.store.report_folder import AUDIT, ENVIRONMENT, LAYER_NAMES, PLAN, ReportFolder
from gradlab.trials.outcome import TrialResult
from gradlab.trials.trial import trial_id

FORMAT = 5
MOST_KEPT_ROWS = 5_000_000
"""Rows of committed tables that stay in memory, so that the report does not read back what was just written."""
RESULTS, WRITING, DAMAGED = "results", ".writing", "damaged"


@dataclass
class RunFolder(ReportFolder):
    """The folder of a run in progress, with its lock."""

    lock: Lock
    account: Account
    chunks: list[Chunk] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the user has to know: a run moved aside, a damaged chunk."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Versions and machine of the run: where it was begun, and where else it was continued."""
    _number: int = 0
    _records: Records | None = None
    _kept_rows: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.lock.release()

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
        path = path.absolute()
        folder = _taken(path)
        try:
            before = folder._plan_before()
            if (force and (before is not None or folder.chunks)) or not folder._continues(plan, before):
                folder = folder._moved_aside()
            begun = folder._environment_before(mixed)
            if begun is not None:
                folder._check_environment(plan, begun, environment, mixed)
                environment = together_with(begun, environment)
            folder.environment = {**environment, "format": FORMAT}
            folder.notes += folder.account.begin(plan, folder.chunks)
            folder._describe(plan, command)
        except BaseException:
            folder.lock.release()
            raise
        return folder

    # ------------------------------------------------------------------ what is there

    def records(self) -> Records:
        """All committed results. Tables that have been read or written are not read again."""
        if self._records is None:
            self._records = Records(self.chunks, seeds_first_seen(self.path))
        return self._records

    def _plan_before(self) -> dict[str, Any] | None:
        """The plan in the folder; a damaged one is rewritten from the current study."""
        try:
            return read_plan(self.path)
        except DamagedFile as error:
            self.notes.append(f"{error}; it is rewritten")
            return None

    def _environment_before(self, mixed: bool) -> dict[str, Any] | None:
        path = self.path / ENVIRONMENT
        try:
            found = read_fitted(path, checked_environment)
            if found is not None or not self.chunks:
                return found
            problem = f"{path} is missing"
        except DamagedFile as error:
            problem = str(error)
        if not mixed:
            raise StoreError(
                f"{problem}, so that it is not known where the run was begun; --mixed continues it all the same"
            )
        self.notes.append(f"{problem}; it is rewritten")
        return None

    def _gather(self) -> None:
        """Open and check every chunk; a damaged one is set aside, and its trials run again."""
        shutil.rmtree(self.path / WRITING, ignore_errors=True)
        for path in chunk_paths(self.path):
            self._number = max(self._number, int(path.name))
            try:
                chunk = Chunk.open(path)
                chunk.verify()
                self.chunks.append(chunk)
            except DamagedChunk as error:
                place = free_name(self.path / DAMAGED / path.name)
                self.notes.append(f"{error}; it is kept as {place}")
                self.account.aside.append({"chunk": path.name, "kept": f"{DAMAGED}/{place.name}"})
                move(path, place)

    def _continues(self, plan: Plan, before: Mapping[str, Any] | None) -> bool:
        """Whether the folder holds nothing yet, or results of this plan among others; refuses other numerics."""
        stored = set(self.records().trials["trial"].to_pylist())
        if not stored:
            return True
        if before is not None:
            self._refuse_other_numerics(plan, before, stored)
        return not stored.isdisjoint(trial.id for trial in plan.all_trials)

    def _refuse_other_numerics(self, plan: Plan, before: Mapping[str, Any], stored: set[str]) -> None:
        """What was computed under another numerics version of an engine is not mixed, nor silently run again."""
        tuning = plan.tuning
        tried = (*tuning.plan.groups, *tuning.base.groups) if tuning is not None else ()
        now = {group.content: group for group in (*plan.groups, *tried)}
        for group, seeds in (each for phase in saved_phases(before).values() for each in phase):
            same = now.get(group["content"])
            if same is None or same.numerics == group["numerics"]:
                continue
            if not stored.isdisjoint(trial_id(group["id"], seed) for seed in seeds):
                raise StoreError(
                    f"{self.path} was begun with other numerics ({group['name']}: {group['numerics']}, now "
                    f"{same.numerics}), and results of the two are not to be mixed; --force starts afresh beside it, "
                    "--out in another folder"
                )

    def _check_environment(self, plan: Plan, before: Mapping[str, Any], now: Mapping[str, Any], mixed: bool) -> None:
        finished = self.records().finished
        others = other_numerics(before, now)
        if not finished or not others or mixed or all(trial.id in finished for trial in plan.all_trials):
            return
        raise StoreError(
            f"{self.path} was begun elsewhere ({'; '.join(others)}), where the same trial may give other bits; "
            "--mixed continues it all the same and says so in the report, --force starts afresh beside it"
        )

    # ------------------------------------------------------------------ writing

    def _describe(self, plan: Plan, command: str) -> None:
        written = saved_files(plan)
        parts = {name: content for name, content in written.items() if name.startswith(f"{PARTS}/")}
        self.account.describe({n: sha256(c).hexdigest() for n, c in written.items() if n not in parts})
        shutil.rmtree(self.path / PARTS, ignore_errors=True)
        for name, content in parts.items():
            self._write(name, content)
        self.write_sealed(PLAN, {"format": FORMAT, "command": command, **saved(plan)})
        self.write_sealed(ENVIRONMENT, self.environment)
        for name, content in written.items():
            if name not in parts:
                self.write_file(name, content)

    def keep_choice(self, plan: Plan, results: str, command: str) -> None:
        """Record at which values the arms are judged; `results` is the hash of the tuning trials that decided it.

        The ledger first: a process that dies in between leaves a plan that is pending, and the next makes the choice
        again from the same results.
        """
        self.account.choose(plan, results)
        self._describe(plan, command)

    def keep_environments(self, others: Sequence[Mapping[str, Any]]) -> None:
        """Record other environments in which trials of this run were trained."""
        together: Mapping[str, Any] = self.environment
        for other in others:
            together = together_with(together, other)
        if together != self.environment:
            self.environment = dict(together)
            self.write_sealed(ENVIRONMENT, self.environment)

    def keep_audit(self, audit: Audit) -> None:
        """Keep whether the comparison is fair."""
        self.write_sealed(AUDIT, audit.to_json())

    @cached_property
    def layer_names(self) -> dict[str, Sequence[str]]:
        """Group id -> the names of its layers, from this call and earlier ones. A damaged file is replaced."""
        path = self.path / LAYER_NAMES
        try:
            return read_fitted(path, report_folder.checked_names) or {}
        except DamagedFile as error:
            self.notes.append(f"{error}; it is rewritten")
            path.unlink(missing_ok=True)
            return {}

    def keep_layer_names(self, by_id: Mapping[str, Sequence[str]]) -> None:
        """Add the names of layers, by group id."""
        self.layer_names.update({identity: list(names) for identity, names in by_id.items()})
        if by_id:
            self.write_sealed(LAYER_NAMES, self.layer_names)

    def adopt(self, records: Records) -> None:
        """Add results from elsewhere, but for those that are already here."""
        before = self.records()
        table = before.trials
        here = set(zip(table["trial"].to_pylist(), table["digest"].to_pylist(), strict=True))
        finished = before.finished
        for chunk in records.chunks:
            trials = chunk.table("trials")
            pairs = zip(trials["trial"].to_pylist(), trials["digest"].to_pylist(), strict=True)
            new = {trial for trial, digest in pairs if trial not in finished and (trial, digest) not in here}
            if new:
                self._commit(chunk.loaded().only(new), adopted=True)

    def commit(self, results: Sequence[TrialResult]) -> None:
        """Add these results; after this they survive anything but the loss of the disk."""
        self._commit(MemoryChunk.of(results))

    def _commit(self, memory: MemoryChunk, *, adopted: bool = False) -> None:
        for piece in memory.pieces():
            self.lock.check(self.path)
            number = self._number + 1
            path = self.path / RESULTS / f"{number:06d}"
            chunk = commit(path, piece, self.path / WRITING)
            self._number = number
            self._kept_rows += piece.rows
            if self._kept_rows <= MOST_KEPT_ROWS:
                chunk.keep_tables(piece.tables)
            self.chunks.append(chunk)
            self._records = None
            self.account.commit(chunk, piece.tables["trials"], adopted=adopted)

    def _moved_aside(self) -> RunFolder:
        """Rename this run to the first free `NAME~1`, `NAME~2`, … and begin a new one in its place."""
        place = free_name(self.path)
        earlier = {"moved_to": place.name, "trials": len(self.records().finished), "attempt": attempt_of(self.path)}
        move(self.path, place)
        self.lock.release()
        folder = _taken(self.path)
        folder.account.earlier = earlier
        folder.notes.append(f"the run that was in {self.path} is now in {place}")
        return folder


def condense(path: Path) -> None:
    """Write the results of a run as one chunk without weights, for keeping; the ledger says which chunks it replaces.

    A process that dies in between leaves both, which hold the same results; the next call removes what it replaced.
    """
    with _taken(path.absolute()) as folder:
        records = folder.records()
        tables = {"trials": records.trials, "curves": records.curves(), "layers": records.layers()}
        whole = folder.path / RESULTS / f"{folder._number + 1:06d}"
        chunk = commit(whole, MemoryChunk(tables, {}), folder.path / WRITING, without_weights=True)
        folder.account.condense(chunk, tables["trials"], [old.path.name for old in folder.chunks])
        for old in folder.chunks:
            shutil.rmtree(old.path)


def move_aside(path: Path) -> Path:
    """Rename a run that nobody is writing to the first free `NAME~1`, `NAME~2`, …; return its new place."""
    lock = Lock.take(path)
    try:
        place = free_name(path)
        move(path, place)
        return place
    finally:
        lock.release()


def _taken(path: Path) -> RunFolder:
    """The folder with its lock, made if need be; somebody's other files are refused."""
    try:
        there = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    except OSError as error:
        raise StoreError(f"cannot use the run's folder {shortened(str(path))}: {error.strerror or error}") from None
    if not _is_ours(path, there):
        raise StoreError(f"{path} is not empty and not a run of gradlab; choose another folder with --out")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"cannot make the run's folder {shortened(str(path))}: {reason}") from None
    folder = RunFolder(path, Lock.take(path), Account(path))
    try:
        for name in there:
            if _LEFT.fullmatch(name):  # a process died between writing and renaming
                (path / name).unlink(missing_ok=True)
        folder._gather()
    except OSError as error:
        folder.lock.release()
        raise StoreError(f"cannot use the run's folder {path}: {error.strerror or error}") from None
    except BaseException:
        folder.lock.release()
        raise
    return folder


_LEFT = re.compile(r"\.[a-z]+\.[a-z]+\.\d+\.tmp")


def _is_ours(path: Path, there: set[str]) -> bool:
    """A folder of ours has a plan that says so, or results; or it has only what dies with a process that just began."""
    beginnings = {name for name in there if name in ("lock", WRITING, PARTS, LEDGER, HEAD) or _LEFT.fullmatch(name)}
    if there <= beginnings:
        return True
    with suppress(OSError):
        plan = read_regular(path / PLAN)
        if b'"format"' in plan and b'"groups"' in plan:
            return True
    return any((chunk / MANIFEST).is_file() for chunk in chunk_paths(path))


def chunk_paths(folder: Path) -> list[Path]:
    """The committed chunks of a run, in the order of their numbers."""
    try:
        found = (folder / RESULTS).iterdir()
        return sorted(path for path in found if path.name.isascii() and path.name.isdigit())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"cannot read {folder / RESULTS}: {error.strerror or error}") from None


def read_plan(folder: Path) -> dict[str, Any] | None:
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


def names_by_group(plan: Plan, by_id: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Group -> the names of its layers, from what a run's folder keeps by group id."""
    return {planned.group.name: by_id[planned.id] for planned in plan.groups if planned.id in by_id}


def together_with(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The first environment of a run, and the others it was continued in."""
    others = list(before.get("also", []))
    if other_numerics(before, now) and now not in others:
        others.append(dict(now))
    return {**before, **({"also": others} if others else {})}

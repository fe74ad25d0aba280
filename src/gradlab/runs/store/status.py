"""Progress of a run, for other terminals: a small file that the coordinator rewrites every second.

It is valid only while the run's lock is held: a dead process leaves the file, but not the lock.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gradlab.audits.audit import Audit
from gradlab.errors import StoreError, shortened
from gradlab.plans.saving import TUNING, phase_ids, saved_phases, trial_ids
from gradlab.runs.store import lock
from gradlab.runs.store.chunks import Chunk, DamagedChunk
from gradlab.runs.store.environment import checked_environment
from gradlab.runs.store.files import DamagedFile, read_fitted
from gradlab.runs.store.folder import chunk_paths, read_plan
from gradlab.runs.store.ledger import seeds_first_seen
from gradlab.runs.store.lock import read_json_object
from gradlab.runs.store.records import MOST_ROWS, Records, results_hash
from gradlab.runs.store.report_folder import AUDIT, ENVIRONMENT, LAYER_NAMES, MICROWORLD, checked_names
from gradlab.runs.store.tables import NAMES
from gradlab.spec.base import plain_json
from gradlab.spec.stored import Stored
from gradlab.trials.trial import TrialLabel, trial_id

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


class RunningTrial(Stored):
    """A trial that a worker is training."""

    trial: str


class Progress(Stored):
    """What a living process says of itself."""

    running: list[RunningTrial] = Field(default_factory=list)
    per_second: float | None = None
    seconds_left: float | None = None


def read(folder: Path) -> Progress:
    """Return the latest progress; empty if there is none, or if it is not one."""
    try:
        return Progress.fit(read_json_object(folder / NAME))
    except ValueError:
        return Progress()


# The state of a run, seen from another terminal or after a crash.
#
# Data that a dead process may have left are ignored.


@dataclass(frozen=True)
class Phase:
    """The trials of one phase of a run: how many there are, and how many have an outcome."""

    name: str
    planned: int
    done: int


WATCH = "watch.jsonl"
"""The file of a watch on the disk (`comparing/live.py`)."""
DEPTH = 3
"""Folders below the given one in which runs are looked for."""


@dataclass(frozen=True)
class RunStatus:
    """Counts of a run. Committed trials are counted from the files; only a living process knows what is running."""

    folder: str
    study: str
    question: str
    alive: bool
    holder: str | None
    """The process that is writing, in words."""
    planned: int
    done: int
    """With an outcome, including diverged trials."""
    diverged: int
    failed: int
    running: tuple[Mapping[str, Any], ...]
    left: int
    """Neither committed nor running."""
    per_second: float | None
    seconds_left: float | None
    damaged: tuple[str, ...]
    hash: str
    """Hash of all committed results of the plan, without wall times and without those of a tuning."""
    phases: tuple[Phase, ...] = ()
    """Tuning and judging, of a study that tunes; empty of any other."""

    @property
    def phase(self) -> str | None:
        """The first phase that has trials left, or the last; None of a study that has only one."""
        left = [phase for phase in self.phases if phase.done < phase.planned]
        return left[0].name if left else self.phases[-1].name if self.phases else None

    @property
    def finished(self) -> bool:
        """Whether no trial is left."""
        return self.done + self.failed == self.planned and not self.running

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {**asdict(self), "phase": self.phase, "finished": self.finished}


def find_runs(below: Path, depth: int = DEPTH) -> list[Path]:
    """The run folders in this folder and below it, by name; folders that cannot be read are passed over."""
    if is_run(below):
        return [below]
    found: list[Path] = []
    with suppress(OSError):
        for path in sorted(below.iterdir()):
            if depth and path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
                found += find_runs(path, depth - 1)
    return found


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run whose plan can be read."""
    try:
        plan_of(folder)
    except (StoreError, OSError):
        return False
    return True


def status(folder: Path) -> RunStatus:
    """Read the state of a run folder. Never writes."""
    plan = plan_of(folder)
    alive = lock.is_held(folder)
    live = read(folder) if alive else Progress()
    records, damaged = committed(folder)
    wanted = trial_ids(plan)
    trials = records.trials
    trials = trials.filter(pc.is_in(trials["trial"], pa.array(list(wanted), pa.string())))
    ended = dict(zip(trials["trial"].to_pylist(), trials["status"].to_pylist(), strict=True))
    running = tuple(each for each in live.running if ended.get(each.trial, "failed") == "failed")
    again = {each.trial for each in running}
    found = Counter(how for trial, how in ended.items() if trial not in again)
    done, failed = found["done"] + found["diverged"], found["failed"]
    phases = [(phase, phase_ids(plan, phase)) for phase in saved_phases(plan)]
    judged_ids = [trial_id(group["id"], seed) for group in plan["groups"] for seed in plan["seeds"]]
    judged = trials.filter(pc.is_in(trials["trial"], pa.array(judged_ids, pa.string())))
    return RunStatus(
        folder=str(folder),
        study=plan["study"],
        question=plan["question"],
        alive=alive,
        holder=lock.describe_holder(lock.holder(folder)) if alive else None,
        planned=len(wanted),
        done=done,
        diverged=found["diverged"],
        failed=failed,
        running=tuple(each.model_dump() for each in running),
        left=len(wanted) - done - failed - len(running),
        per_second=live.per_second,
        seconds_left=live.seconds_left,
        damaged=damaged,
        hash=results_hash(judged),
        phases=tuple(
            Phase(name, len(ids), sum(ended.get(trial, "failed") != "failed" for trial in ids)) for name, ids in phases
        )
        if TUNING in dict(phases)
        else (),
    )


def count_finished(folder: str | Path, trials: Iterable[TrialLabel]) -> int:
    """Return how many of these trials are already done in a run folder; 0 if there is no such run."""
    path = Path(folder)
    try:
        if not path.is_dir():
            return 0
    except OSError:  # not a valid folder name: starting the run will say so
        return 0
    return len(committed(path)[0].finished & {trial.id for trial in trials})


def plan_of(folder: Path) -> dict[str, Any]:
    """Return the saved plan of a run; a `StoreError` if exists is none."""
    try:
        exists, is_folder = folder.exists(), folder.is_dir()
    except OSError as error:
        raise StoreError(f"{shortened(str(folder))}: {error.strerror or error}") from None
    if not exists:
        raise StoreError(f"{folder} does not exist; `gradlab run` creates runs/STUDY, or the folder given by --out")
    if not is_folder:
        raise StoreError(f"{folder} is a file; give a run folder, such as runs/identity")
    try:
        plan = read_plan(folder)
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


def committed(folder: Path, *, whole: bool = False) -> tuple[Records, tuple[str, ...]]:
    """Return the committed results that can be read, and a line for each chunk that cannot.

    `whole`: whether all three tables of a chunk are checked now, and not only its trials, unless they are very large:
    then a report leaves out a damaged chunk and tells the rest.
    """
    chunks: list[Chunk] = []
    damaged: list[str] = []
    rows = 0
    for path in chunk_paths(folder):
        try:
            chunk = Chunk.open(path)
            chunk.table("trials")
            rows += sum(chunk.count_rows(name) for name in NAMES)
            if whole and rows <= MOST_ROWS:
                chunk.check_tables()
            chunks.append(chunk)
        except DamagedChunk as error:
            if os.path.lexists(path):  # else the process that runs it has just moved it aside
                damaged.append(str(error))
    return Records(chunks, seeds_first_seen(folder)), tuple(damaged)


# A run's folder opened for reading: every file is read and checked once.

T = TypeVar("T")
_REMEDY = {
    AUDIT: "whether the comparison is fair is not known until the study is run again",
    MICROWORLD: "the micro-world is left out; `gradlab report RUN --seed N` makes it again",
    LAYER_NAMES: "layers are shown by their numbers",
    ENVIRONMENT: "versions and machine are not known",
}


class OpenedRun:
    """The plan, the results and the files beside them. A damaged file gets a note, and the rest is still shown."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan = plan_of(path)
        """The saved plan as plain data."""
        self.records, damaged = committed(path, whole=True)
        self.notes = list(damaged)
        """A line for each chunk and file that is damaged, as far as it has been read."""

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions and machine; empty if unknown."""
        return self.read(ENVIRONMENT, checked_environment) or {}

    @cached_property
    def audit(self) -> Audit | None:
        """Whether the comparison is fair; None if it was never audited."""
        return self.read(AUDIT, Audit.from_json)

    @cached_property
    def layer_names(self) -> Mapping[str, Sequence[str]]:
        """Group id -> the names of its layers."""
        return self.read(LAYER_NAMES, checked_names) or {}

    def read(self, name: str, parse: Callable[[dict[str, Any]], T]) -> T | None:
        """A parsed file of the folder; None if it is missing or damaged."""
        try:
            return read_fitted(self.path / name, parse)
        except DamagedFile as error:
            self.notes.append(f"{error}; {_REMEDY[name]}")
            return None

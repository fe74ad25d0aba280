"""The state of a run, read from another terminal or after a crash.

Files that a dead process may have left behind are not trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gradlab.errors import StoreError, shortened
from gradlab.plans.saving import trial_ids
from gradlab.runs.store import lock, progress
from gradlab.runs.store.chunks import Chunk, DamagedChunk
from gradlab.runs.store.folder import chunk_paths, read_plan
from gradlab.runs.store.records import Records, results_hash
from gradlab.runs.store.sealed import DamagedFile
from gradlab.trials.trial import TrialLabel


@dataclass(frozen=True)
class RunStatus:
    """Committed trials are counted from the files; running ones are reported by the live process."""

    folder: str
    study: str
    question: str
    alive: bool
    holder: str | None
    """Who is writing, in words."""
    planned: int
    done: int
    """With an outcome, the diverged among them."""
    diverged: int
    failed: int
    running: tuple[Mapping[str, Any], ...]
    left: int
    """Neither committed nor running."""
    per_second: float | None
    seconds_left: float | None
    damaged: tuple[str, ...]
    hash: str
    """Of all committed results of the plan, wall times aside."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.done + self.failed == self.planned and not self.running

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {**asdict(self), "finished": self.finished}


def status(folder: Path) -> RunStatus:
    """Look at a run's folder. Only reads."""
    plan = plan_of(folder)
    alive = lock.is_held(folder)
    live = progress.read(folder) if alive else {}
    records, damaged = committed(folder)
    wanted = trial_ids(plan)
    trials = records.trials
    trials = trials.filter(pc.is_in(trials["trial"], pa.array(list(wanted), pa.string())))
    ended = dict(zip(trials["trial"].to_pylist(), trials["status"].to_pylist(), strict=True))
    running = tuple(r for r in live.get("running", ()) if ended.get(r.get("trial"), "failed") == "failed")
    again = {r.get("trial") for r in running}
    found = Counter(how for trial, how in ended.items() if trial not in again)
    done, failed = found["done"] + found["diverged"], found["failed"]
    return RunStatus(
        folder=str(folder),
        study=plan["study"],
        question=plan["question"],
        alive=alive,
        holder=lock.described(lock.holder(folder)) if alive else None,
        planned=len(wanted),
        done=done,
        diverged=found["diverged"],
        failed=failed,
        running=running,
        left=len(wanted) - done - failed - len(running),
        per_second=live.get("per_second"),
        seconds_left=live.get("seconds_left"),
        damaged=damaged,
        hash=results_hash(trials),
    )


def count_finished(folder: str | Path, trials: Iterable[TrialLabel]) -> int:
    """How many of these trials are already done in a run's folder; 0 where there is no such run."""
    path = Path(folder)
    try:
        if not path.is_dir():
            return 0
    except OSError:  # not a valid folder name: starting the run says so
        return 0
    return len(committed(path)[0].finished & {trial.id for trial in trials})


def plan_of(folder: Path) -> dict[str, Any]:
    """The saved plan of a run; a `StoreError` where there is none."""
    try:
        there, is_folder = folder.exists(), folder.is_dir()
    except OSError as error:
        raise StoreError(f"{shortened(str(folder))}: {error.strerror or error}") from None
    if not there:
        raise StoreError(f"{folder} is not there; `gradlab run` makes runs/STUDY, or what --out says")
    if not is_folder:
        raise StoreError(f"{folder} is a file, not the folder of a run, like runs/identity")
    try:
        plan = read_plan(folder)
    except DamagedFile as error:
        raise DamagedFile(f"{error}; the same `gradlab run` command rewrites it and keeps the results") from None
    if plan is None:
        raise StoreError(f"{folder} is not a run of gradlab: it has no plan.json")
    return plan


def committed(folder: Path) -> tuple[Records, tuple[str, ...]]:
    """The committed results that can be read, and a line for each chunk that cannot."""
    chunks, damaged = [], []
    for path in chunk_paths(folder):
        try:
            chunk = Chunk.open(path)
            chunk.table("trials")
            chunks.append(chunk)
        except DamagedChunk as error:
            if path.exists():  # not set aside meanwhile by the process that runs it
                damaged.append(str(error))
    return Records(chunks), tuple(damaged)

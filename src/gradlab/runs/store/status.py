"""The state of a run, seen from another terminal or after a crash.

Data that a dead process may have left are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gradlab.errors import StoreError, shortened
from gradlab.plans.saving import TUNING, phase_ids, saved_phases, trial_ids
from gradlab.runs.store import lock, progress
from gradlab.runs.store.chunks import Chunk, DamagedChunk
from gradlab.runs.store.folder import chunk_paths, read_plan
from gradlab.runs.store.records import Records, results_hash
from gradlab.runs.store.sealed import DamagedFile
from gradlab.trials.trial import TrialLabel, trial_id


@dataclass(frozen=True)
class Phase:
    """The trials of one phase of a run: how many there are, and how many have an outcome."""

    name: str
    planned: int
    done: int


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
        running=running,
        left=len(wanted) - done - failed - len(running),
        per_second=live.get("per_second"),
        seconds_left=live.get("seconds_left"),
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
    if plan is None:
        raise StoreError(f"{folder} is not a gradlab run: it has no plan.json")
    return plan


def committed(folder: Path) -> tuple[Records, tuple[str, ...]]:
    """Return the committed results that can be read, and a line for each chunk that cannot."""
    chunks, damaged = [], []
    for path in chunk_paths(folder):
        try:
            chunk = Chunk.open(path)
            chunk.table("trials")
            chunks.append(chunk)
        except DamagedChunk as error:
            if path.exists():  # else the process that runs it has just moved it aside
                damaged.append(str(error))
    return Records(chunks), tuple(damaged)

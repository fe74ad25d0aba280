"""The state of a run, seen from another terminal or after a crash.

Its progress is a small file that the coordinator rewrites every second. It is valid only while the run's lock is held:
a dead process leaves the file, but not the lock.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gradlab.errors import StoreError
from gradlab.plans.saving import TUNING, phase_ids, saved_phases, seeds_of, trial_ids
from gradlab.runs.store.files import describe_holder, is_held, read_json_object
from gradlab.runs.store.folder import committed, plan_of
from gradlab.runs.store.ledger import open_claims
from gradlab.runs.store.records import results_hash
from gradlab.spec.base import plain_json
from gradlab.spec.stored import Stored
from gradlab.trials.trial import TrialLabel, trial_id

NAME = "progress.json"
SECONDS = 1.0


@contextmanager
def repeated(name: str, action: Callable[[], None], pause: Callable[[], float]) -> Iterator[None]:
    """Call `action` in a thread again and again while the block runs, and once more at its end."""
    end = threading.Event()

    def repeat() -> None:
        while not end.wait(pause()):
            action()
        action()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@contextmanager
def heartbeat(folder: Path, read_progress: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Write the progress to the folder every second while the block runs."""
    path = folder / NAME

    def write() -> None:
        with suppress(OSError):  # a full disk: the run's commits will report it
            temporary = path.with_name(f".{NAME}.tmp")
            temporary.write_text(json.dumps(plain_json(dict(read_progress()))))
            os.replace(temporary, path)

    try:
        write()
        with repeated("gradlab-heartbeat", write, lambda: SECONDS):
            yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


class RunningTrial(Stored):
    """A trial that a worker is training."""

    trial: str


class Progress(Stored):
    """What a living process says of itself."""

    running: list[RunningTrial] = Field(default_factory=list)
    per_second: float | None = None
    seconds_left: float | None = None


def _read_progress(folder: Path) -> Progress:
    """Return the latest progress; empty if there is none, or if it is not one."""
    try:
        return Progress.fit(read_json_object(folder / NAME))
    except ValueError:
        return Progress()


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
    open: tuple[Mapping[str, Any], ...] = ()
    """Claims that the latest report left open: their number, the seeds that they have, the seeds in all that would
    settle them (None: no number would) and the seconds that these would take on one core."""
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
    runs: list[Path] = []
    with suppress(OSError):
        for path in sorted(below.iterdir()):
            if depth and path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
                runs += find_runs(path, depth - 1)
    return runs


def list_runs(below: Path) -> tuple[RunStatus, ...]:
    """The state of every run in this folder and up to three folders below it, by name."""
    return tuple(status(path) for path in find_runs(below))


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run whose plan can be read."""
    try:
        plan_of(folder)
    except (StoreError, OSError):
        return False
    return True


def status(folder: Path) -> RunStatus:
    """Read the state of a run folder. Never writes. What a dead process may have left is ignored."""
    plan = plan_of(folder)
    alive = is_held(folder)
    live = _read_progress(folder) if alive else Progress()
    records, damaged = committed(folder)
    planned = trial_ids(plan)
    ended = {trial: how for trial, how in records.status.items() if trial in planned}
    running = tuple(trial for trial in live.running if ended.get(trial.trial, "failed") == "failed")
    again = {trial.trial for trial in running}
    counts = Counter(how for trial, how in ended.items() if trial not in again)
    done, failed = counts["done"] + counts["diverged"], counts["failed"]
    phases = [(phase, phase_ids(plan, phase)) for phase in saved_phases(plan)]
    judged_ids = [trial_id(group["id"], seed) for group in plan["groups"] for seed in seeds_of(plan, group)]
    judged = records.trials.filter(pc.is_in(records.trials["trial"], pa.array(judged_ids, pa.string())))
    return RunStatus(
        folder=str(folder),
        study=plan["study"],
        question=plan["question"],
        alive=alive,
        holder=describe_holder(folder) if alive else None,
        planned=len(planned),
        done=done,
        diverged=counts["diverged"],
        failed=failed,
        running=tuple(trial.model_dump() for trial in running),
        left=len(planned) - done - failed - len(running),
        per_second=live.per_second,
        seconds_left=live.seconds_left,
        damaged=damaged,
        hash=results_hash(judged),
        open=open_claims(folder),
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

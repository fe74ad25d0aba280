"""A folder that the coordinator and the jobs of a cluster share: bundles to run, claims, answers, live losses.

spool/
  cargo                 what all trials share
  todo/000017           a bundle that nobody has taken
  taken/JOB.RANK.000017 the same file, renamed by the worker that took it: a rename succeeds for one of them
  done/000017           its answer; the coordinator commits it and removes the file
  refused/JOB.RANK      why a worker may not run trials
  live/JOB.RANK         what a worker is training
  alive  stop           the coordinator lives (touched every few seconds); workers end

Every file is written beside and renamed into place, so that nobody reads half of it. Files are pickles: the folder is
private, and one that others can write to is refused.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, time
from typing import Any

from gradlab.cache import why_untrusted
from gradlab.errors import EnvironmentFault
from gradlab.runs.monitor import Monitor
from gradlab.runs.parcels import Answer, Cargo, Ticket
from gradlab.runs.remote import RemoteWorker
from gradlab.trials.trial import TrialLabel

REPORT_SECONDS = 1.0
ALONE_SECONDS = 120.0
"""Without a sign of life of the coordinator for so long, a worker ends: nobody would commit its results."""
FOLDERS = ("todo", "taken", "done", "refused", "live", "logs")
Line = tuple[str, int, float, float]


class Spool:
    """The shared folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self, cargo: Cargo, bundles: Sequence[Sequence[Ticket]]) -> None:
        """Write everything that jobs need."""
        for name in FOLDERS:
            (self.path / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.chmod(0o700)
        self.touch()
        self.write("cargo", cargo)
        for number, tickets in enumerate(bundles):
            self.write(f"todo/{number:07d}", tuple(tickets))

    def check(self) -> None:
        """Refuse a folder into which somebody else could have written."""
        if refusal := why_untrusted(self.path.parent, self.path):
            raise EnvironmentFault(f"the job folder is not safe to use: {refusal}")

    def write(self, name: str, what: Any) -> None:
        """Write a file, whole or not at all."""
        path = self.path / name
        temporary = self.path / f".{path.name}.{os.getpid()}.tmp"
        temporary.write_bytes(pickle.dumps(what, protocol=5))
        os.replace(temporary, path)

    def read(self, name: str) -> Any:
        """Read a file; None if it is gone."""
        try:
            return pickle.loads((self.path / name).read_bytes())
        except (FileNotFoundError, EOFError, pickle.UnpicklingError):
            return None

    def names(self, folder: str) -> list[str]:
        """The files of a folder, sorted."""
        try:
            return sorted(name for name in os.listdir(self.path / folder) if not name.startswith("."))
        except FileNotFoundError:
            return []

    def take(self, worker: str) -> tuple[str, tuple[Ticket, ...]] | None:
        """Claim a bundle; None if none is left."""
        for name in self.names("todo"):
            claim = f"taken/{worker}.{name}"
            try:
                os.rename(self.path / "todo" / name, self.path / claim)
            except OSError:  # another worker was faster
                continue
            tickets = self.read(claim)
            if tickets is not None:
                return name, tickets
        return None

    def answer(self, worker: str, name: str, answer: Answer) -> None:
        """Write the answer to a bundle, then give up the claim."""
        self.write(f"done/{name}", answer)
        with suppress(FileNotFoundError):
            (self.path / f"taken/{worker}.{name}").unlink()

    def put_back(self, owner: str) -> list[str]:
        """Free the claims of a job or of one of its workers; gives the bundles' names."""
        found = []
        for claim in self.names("taken"):
            if claim.startswith(f"{owner}."):
                name = claim.rpartition(".")[2]
                with suppress(OSError):
                    os.rename(self.path / "taken" / claim, self.path / "todo" / name)
                    found.append(name)
        return found

    def answers(self) -> Iterator[tuple[str, Answer]]:
        """Yield what has been answered and remove it."""
        for name in self.names("done"):
            answer = self.read(f"done/{name}")
            if answer is not None:
                yield name, answer
            with suppress(FileNotFoundError):
                (self.path / "done" / name).unlink()

    def lines(self) -> list[Line]:
        """Everything in training."""
        return [line for name in self.names("live") for line in self.read(f"live/{name}") or ()]

    def touch(self) -> None:
        """Tell the workers that the coordinator lives."""
        (self.path / "alive").touch()

    def stop(self) -> None:
        """Tell the workers to end."""
        with suppress(OSError):
            (self.path / "stop").touch()

    @property
    def stopping(self) -> bool:
        """Whether workers have to end."""
        try:
            return (self.path / "stop").exists() or time() - (self.path / "alive").stat().st_mtime > ALONE_SECONDS
        except OSError:  # the folder is gone
            return True


class SpoolMonitor(Monitor):
    """A worker's monitor: once a second it writes what it trains and looks whether to stop."""

    def __init__(self, spool: Spool, worker: str) -> None:
        super().__init__()
        self._spool, self._worker = spool, worker
        self._reported = 0.0

    def began(self, trial: TrialLabel) -> None:
        """Register a trial."""
        self._report()
        super().began(trial)

    def tick(self, trial: TrialLabel, steps: int, loss: float) -> None:
        """Record progress."""
        self._report()
        super().tick(trial, steps, loss)

    def _report(self) -> None:
        now = monotonic()
        if now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        if self._spool.stopping:
            self.stop()
            return
        lines = tuple((live.trial.id, live.steps, live.loss, now - live.started) for live in self.running())
        with suppress(OSError):
            self._spool.write(f"live/{self._worker}", lines)


def work(path: Path, worker: str) -> int:
    """Take bundles and answer them until none is left; gives the number of bundles. `worker` is JOB.RANK."""
    spool = Spool(path)
    cargo = spool.read("cargo")
    if cargo is None or spool.stopping:
        return 0
    spool.put_back(worker)  # of a job that was started again after its machine died
    remote = RemoteWorker(cargo)
    if remote.refusal is not None:
        spool.write(f"refused/{worker}", remote.refusal)
        return 0
    monitor = SpoolMonitor(spool, worker)
    count = 0
    while not monitor.stopping and not spool.stopping and (claim := spool.take(worker)) is not None:
        name, tickets = claim
        spool.answer(worker, name, remote.run(tickets, monitor))
        count += 1
    with suppress(FileNotFoundError):
        (spool.path / f"live/{worker}").unlink()
    return count

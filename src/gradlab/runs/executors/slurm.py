"""A few jobs of a SLURM cluster, each of which runs many bundles; their results come back through a shared folder.

coordinator: writes bundles, submits jobs, commits answers   ◀─ spool folder ─▶   jobs: take bundles, write answers

Jobs take bundles one by one, so a job that starts late takes fewer. The bundles of a job that ended are freed, and a
new job is submitted for what is left.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Generator, Sequence
from math import ceil
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from gradlab.errors import EnvironmentFault, InvalidInput, StoreError
from gradlab.notices import say
from gradlab.runs.executors.base import Executor
from gradlab.runs.executors.slurm_jobs import Jobs, require_commands
from gradlab.runs.executors.spool import Spool
from gradlab.runs.extras import require_extra
from gradlab.runs.freight import load_results, unload_results
from gradlab.runs.monitor import Live, Monitor
from gradlab.runs.parcels import Answer, Ticket, pack
from gradlab.runs.scaling import Costs
from gradlab.runs.store.lock import Lock
from gradlab.runs.worker import Bundle
from gradlab.trials.digest import digest
from gradlab.trials.result import TrialResult
from gradlab.trials.trial import Trial

POLL_SECONDS, LOOK_SECONDS, DRAIN_SECONDS = 0.2, 3.0, 60.0
"""Seconds between looks at the answers and at the jobs; and how long workers may take to stop."""
MOST_DEATHS = 3
"""Jobs that a trial may end before it is recorded as failed; also jobs in a row that may end without an answer."""


class Slurm(Executor):
    """Jobs of a SLURM cluster by submitit, each with many bundles; `mode=local`: the same as processes here."""

    name = "slurm"
    isolated = True
    bundle_seconds: ClassVar[float] = 2.0
    costs: ClassVar[Costs] = Costs(start=5.0, trip=5e-3, bundle=2e-3, trial=5e-4)
    local: ClassVar[bool] = False
    mode: Literal["slurm", "local"] = "slurm"
    jobs: Annotated[int, Field(ge=1, le=1000)] = 1
    """Jobs at a time."""
    cpus: Annotated[int, Field(ge=1)] = 1
    """Cores of a job, all on one machine: as many trials at a time."""
    time: str = "60"
    """A job's time limit, in minutes or as HH:MM:SS; a job whose time is over is requeued."""
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    """Features that the machines must have: the same processor everywhere gives the same bits."""
    memory_gb: Annotated[float, Field(gt=0)] | None = None
    """Memory of a job; default: what the partition gives."""
    grace: Annotated[int, Field(ge=1)] = 90
    """Seconds before the time limit at which a job frees its bundles and is requeued."""
    folder: str = ".gradlab-jobs"
    """A folder that all machines see."""
    mixed: bool = False
    """Accept workers on which the same trial may give other bits."""

    def check(self) -> None:
        """Submitit has to be installed, and SLURM's commands to be there."""
        require_extra("submitit", "slurm", "the executor slurm")
        self.options()
        require_commands(self.mode)

    def shares_machine(self) -> bool:
        """In local mode."""
        return self.mode == "local"

    def cores_per_machine(self) -> int:
        """The cores of a job."""
        return self.cpus

    def width(self, trials: int) -> int:
        """The cores of all jobs."""
        return max(1, min(self.jobs * self.cpus, trials))

    def run(self, bundles: Sequence[Bundle], monitor: Monitor) -> Generator[list[TrialResult]]:
        """Submit the jobs and yield what they answer. Once the run is stopping, workers end at their next tick."""
        if monitor.stopping or not bundles:
            return
        submitit = require_extra("submitit", "slurm", "the executor slurm")
        base = Path(self.folder).absolute()
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        spool = Spool(base / uuid.uuid4().hex[:12])
        spool.path.mkdir(mode=0o700)
        spool.check()
        lock = Lock.take(spool.path)
        try:
            dispatch = _Dispatch(submitit, self, spool, bundles, monitor)
            try:
                yield from dispatch.adopt(base)
                yield from dispatch.run()
            finally:
                dispatch.end()
        except EnvironmentFault:
            raise  # the logs stay: the message names them
        except BaseException:
            shutil.rmtree(spool.path, ignore_errors=True)
            raise
        else:
            shutil.rmtree(spool.path, ignore_errors=True)
        finally:
            lock.release()

    def options(self) -> dict[str, Any]:
        """The parameters of submitit."""
        found: dict[str, Any] = {"timeout_min": parse_minutes(self.time)}
        if self.memory_gb is not None:
            found["mem_gb"] = self.memory_gb
        if self.mode == "local":
            return found
        named = {word: getattr(self, word) for word in ("partition", "account", "qos", "constraint")}
        found |= {f"slurm_{word}": value for word, value in named.items() if value}
        return {**found, "slurm_signal_delay_s": self.grace}


class _Dispatch:
    """One run on the cluster: its jobs and what they have not answered yet."""

    def __init__(self, submitit: Any, how: Slurm, spool: Spool, bundles: Sequence[Bundle], monitor: Monitor) -> None:
        self._how, self._spool, self._monitor = how, spool, monitor
        self._jobs = Jobs(submitit, spool, how.mode, how.cpus, how.options())
        self._trials: dict[str, Trial] = {trial.id: trial for bundle in bundles for trial in bundle}
        self._cargo, tickets = pack(bundles, mixed=how.mixed)
        self._bundles: dict[str, tuple[Ticket, ...]] = {f"{number:07d}": own for number, own in enumerate(tickets)}
        self._next = len(tickets)
        self._deaths: dict[str, int] = {}
        self._idle_ends = 0
        self._alive: set[str] = set()
        self._refused: dict[str, str] = {}
        self._looked = 0.0

    def adopt(self, base: Path) -> Generator[list[TrialResult]]:
        """Yield results that the jobs of a killed coordinator have left."""
        for path in sorted(base.iterdir()):
            if path == self._spool.path or not path.is_dir():
                continue
            for answer in _leftovers(path):
                if results := self._accept(answer):
                    yield results

    def run(self) -> Generator[list[TrialResult]]:
        left = {
            name: own
            for name, tickets in self._bundles.items()
            if (own := tuple(ticket for ticket in tickets if ticket[2] in self._trials))
        }
        self._bundles = left
        self._spool.make(self._cargo, ())
        for name, tickets in left.items():
            self._spool.write(f"todo/{name}", tickets)
        deadline: float | None = None
        if left:
            self._submit(self._how.jobs)
        while self._trials:
            if self._monitor.stopping:
                self._spool.stop()
                deadline = deadline or monotonic() + DRAIN_SECONDS
                if monotonic() > deadline or not self._spool.names("taken"):
                    break
            yield from self._gather()
            if self._trials and not self._monitor.stopping:
                self._look()
            sleep(POLL_SECONDS)
        yield from self._gather()

    def end(self) -> None:
        """Stop all workers and the jobs that still wait."""
        self._spool.stop()
        self._monitor.replace(())
        self._jobs.cancel()

    def _submit(self, count: int) -> None:
        ids = self._jobs.submit(count)
        self._alive.update(ids)
        say(f"submitted {len(ids)} job{'s' if len(ids) > 1 else ''} ({self._how.mode}): {', '.join(ids)}")

    def _gather(self) -> Generator[list[TrialResult]]:
        for name, answer in self._spool.answers():
            self._idle_ends = 0
            tickets = self._bundles.pop(name, ())
            if results := self._accept(answer):
                yield results
            rest = tuple(ticket for ticket in tickets if ticket[2] in self._trials)
            if rest and not self._monitor.stopping:
                self._hand_out(rest)

    def _accept(self, answer: Answer) -> list[TrialResult]:
        if answer.other is not None:
            self._monitor.meet(answer.other)
        results = unload_results(answer.results, self._trials)
        for result in results:
            self._trials.pop(result.trial.id)  # a trial that ran twice has one result
        return results

    def _hand_out(self, tickets: tuple[Ticket, ...]) -> None:
        name = f"{self._next:07d}"
        self._next += 1
        self._bundles[name] = tickets
        self._spool.write(f"todo/{name}", tickets)

    def _look(self) -> None:
        """Look at the jobs every few seconds: free the bundles of ended ones, submit a new one for what is left."""
        if monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = monotonic()
        self._spool.touch()
        self._show()
        self._hear_refusals()
        alive = self._jobs.alive()
        for job in sorted(self._alive - alive):
            self._alive.discard(job)
            taken = self._spool.put_back(job)
            if self._spool.names("done"):
                self._looked = 0.0  # it ended with answers that are still to be read
                continue
            self._idle_ends += 1
            self._count_deaths(taken)
        wanted = min(self._how.jobs, max(1, len(self._spool.names("todo"))))
        if self._spool.names("todo") and len(self._alive) < (wanted if self._how.mode == "slurm" else 1):
            if self._idle_ends >= MOST_DEATHS * self._how.jobs:
                raise EnvironmentFault(
                    f"{self._idle_ends} jobs in a row ended without a result; their logs are in "
                    f"{self._spool.path / 'logs'}; finished trials are kept: run the same command again to resume"
                )
            self._submit(1)

    def _count_deaths(self, taken: Sequence[str]) -> None:
        """A bundle whose job died is cut in halves; a trial that alone ends its job again and again has failed."""
        for name in taken:
            tickets = self._bundles.get(name, ())
            if len(tickets) > 1:
                (self._spool.path / "todo" / name).unlink(missing_ok=True)
                del self._bundles[name]
                self._hand_out(tickets[: len(tickets) // 2])
                self._hand_out(tickets[len(tickets) // 2 :])
            elif tickets:
                self._deaths[tickets[0][2]] = self._deaths.get(tickets[0][2], 0) + 1
                if self._deaths[tickets[0][2]] >= MOST_DEATHS:
                    (self._spool.path / "todo" / name).unlink(missing_ok=True)
                    trial = self._trials[tickets[0][2]]
                    text = f"its job ended {MOST_DEATHS} times before the trial finished"
                    failed = TrialResult(trial, None, text, 0.0, digest(trial.id, None, text))
                    self._spool.write(f"done/{name}", Answer(load_results([failed])))

    def _hear_refusals(self) -> None:
        for name in self._spool.names("refused"):
            sentence = self._spool.read(f"refused/{name}")
            if name not in self._refused and sentence:
                if sentence not in self._refused.values():
                    say(sentence)
                self._refused[name] = sentence
        owners = {name.rpartition(".")[0] for name in self._refused}
        if self._refused and self._alive <= owners and not self._spool.names("taken"):
            reason = next(iter(self._refused.values()))
            raise EnvironmentFault(f"no job is on a machine that matches the one that started the run: {reason}")

    def _show(self) -> None:
        start = monotonic()
        self._monitor.replace(
            Live(self._trials[identity], steps, loss, start - seconds)
            for identity, steps, loss, seconds in self._spool.lines()
            if identity in self._trials
        )


def _leftovers(path: Path) -> list[Answer]:
    """Take the answers in the folder of a dead coordinator, tell its jobs to stop, and remove the folder."""
    try:
        lock = Lock.take(path)
    except StoreError:  # its coordinator lives, or the folder is not ours
        return []
    try:
        left = Spool(path)
        left.check()
        left.stop()
        found = [answer for _, answer in left.answers()]
        shutil.rmtree(path, ignore_errors=True)
        return found
    except EnvironmentFault:
        return []
    finally:
        lock.release()


def parse_minutes(text: str) -> int:
    """Minutes of `90`, `1:30:00` or `2-12:00:00`, as sbatch writes them, rounded up."""
    days, dash, rest = text.rpartition("-")
    try:
        if dash and not days:
            raise ValueError
        parts = [int(part) for part in rest.split(":")]
        if len(parts) == 1 and not days:
            minutes = float(parts[0])
        else:
            hours, minute, second = (*parts, 0, 0)[:3]
            minutes = int(days or 0) * 1440 + hours * 60 + minute + second / 60
        if minutes <= 0 or len(parts) > 3:
            raise ValueError
        return ceil(minutes)
    except ValueError:
        raise InvalidInput(f"the executor slurm: time {text!r}: write minutes (90) or HH:MM:SS (1:30:00)") from None

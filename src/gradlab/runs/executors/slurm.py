"""A few jobs of a SLURM cluster, each of which runs many bundles; their results come back through a shared folder.

coordinator: writes batches, submits jobs, commits answers   ◀─ spool folder ─▶   jobs: take batches, write answers

Jobs take batches one by one, so a job that starts late takes fewer. The batches of a job that ended are freed, and a
new job is submitted for what is left. submitit sends a job a signal before its time is over or when it is preempted;
the job then puts its batches back and is requeued. Its local mode runs the same jobs as processes of this machine.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count
from math import ceil
from pathlib import Path
from time import monotonic, sleep, time
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field

from gradlab.cache import why_untrusted
from gradlab.errors import EnvironmentFault, InvalidInput, StoreError
from gradlab.notices import say
from gradlab.runs.executors.base import Costs, Executor, require_extra, signals_blocked
from gradlab.runs.remote import MOST_DEATHS, Answer, Dispatch, Progress, RemoteWorker, SharedInputs, TrialBatch
from gradlab.runs.store.files import Lock
from gradlab.runs.worker import Bundle, Monitor
from gradlab.trials.outcome import TrialResult
from gradlab.words import counted

T = TypeVar("T")

POLL_SECONDS, LOOK_SECONDS, DRAIN_SECONDS = 0.2, 3.0, 60.0
"""Seconds between looks at the answers and at the jobs; and how long workers may take to stop."""
REPORT_SECONDS = 1.0
"""Seconds between a worker's reports, and its looks whether to stop."""
ALONE_SECONDS = 120.0
"""Without a sign of life of the coordinator for so long, a worker ends: nobody would commit its results."""
MOST_TIMEOUTS = 10_000
"""How often a job may be requeued after its time is over; the coordinator ends a run that makes no progress."""
ALIVE = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "REQUEUED", "COMPLETING")
"""States of a job that has not ended."""


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
        if self.mode == "slurm" and shutil.which("sbatch") is None:
            raise InvalidInput(
                "sbatch was not found, so SLURM is not installed on this machine; --set-executor mode=local runs the "
                "jobs as local processes"
            )

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
        logs_needed = False
        try:
            dispatch = _SlurmDispatch(submitit, self, spool, bundles, monitor)
            try:
                yield from dispatch.adopt(base)
                yield from dispatch.run()
            finally:
                dispatch.end()
        except EnvironmentFault:
            logs_needed = True  # the message names them
            raise
        finally:
            if not logs_needed:
                shutil.rmtree(spool.path, ignore_errors=True)
            lock.release()

    def options(self) -> dict[str, Any]:
        """Return the parameters of submitit."""
        options: dict[str, Any] = {"timeout_min": parse_minutes(self.time)}
        if self.memory_gb is not None:
            options["mem_gb"] = self.memory_gb
        if self.mode == "slurm":
            options["slurm_signal_delay_s"] = self.grace
            for word in ("partition", "account", "qos", "constraint"):
                if value := getattr(self, word):
                    options[f"slurm_{word}"] = value
        return options


def parse_minutes(text: str) -> int:
    """Return the minutes of `90`, `1:30:00` or `2-12:00:00`, as sbatch writes them, rounded up."""
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


class Spool:
    """A folder that the coordinator and the jobs of one run share.

        inputs                what all trials share
        todo/000017           a batch that nobody has taken
        taken/JOB.RANK.000017 the same file, renamed by the worker that took it: a rename succeeds for one of them
        done/000017           its answer; the coordinator commits it and removes the file
        refused/JOB.RANK      why a worker may not run trials
        live/JOB.RANK         what a worker is training
        alive  stop           the coordinator lives (touched every few seconds); workers end

    Every file is written beside and renamed into place, so that nobody reads half of it. Files are pickles: the folder
    is private, and one that others can write to is refused.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._numbers = count()

    def make(self, inputs: SharedInputs) -> None:
        """Write everything that jobs need, but the batches."""
        for name in ("todo", "taken", "done", "refused", "live", "logs"):
            (self.path / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.chmod(0o700)
        self.touch()
        self.write("inputs", inputs)

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
        """Return the files of a folder, sorted."""
        try:
            return sorted(name for name in os.listdir(self.path / folder) if not name.startswith("."))
        except FileNotFoundError:
            return []

    def add(self, batch: TrialBatch) -> str:
        """Let the next free worker take this batch; return its name."""
        name = f"{next(self._numbers):07d}"
        self.write(f"todo/{name}", batch)
        return name

    def take(self, worker: str) -> tuple[str, TrialBatch] | None:
        """Claim a batch; None if none is left."""
        for name in self.names("todo"):
            claim = f"taken/{worker}.{name}"
            try:
                os.rename(self.path / "todo" / name, self.path / claim)
            except OSError:  # another worker was faster
                continue
            batch = self.read(claim)
            if batch is not None:
                return name, batch
        return None

    def answer(self, worker: str, name: str, answer: Answer) -> None:
        """Write the answer to a batch, then give up the claim."""
        self.write(f"done/{name}", answer)
        (self.path / f"taken/{worker}.{name}").unlink(missing_ok=True)

    def put_back(self, owner: str) -> None:
        """Free the claims of a job or of one of its workers."""
        for name, claim in self._claims(owner):
            with suppress(OSError):
                os.rename(claim, self.path / "todo" / name)

    def remove_claims(self, owner: str) -> list[str]:
        """Remove the claims of a job that has ended; return the names of the batches that it left without an answer."""
        names = []
        for name, claim in self._claims(owner):
            claim.unlink(missing_ok=True)
            if not (self.path / "done" / name).exists():
                names.append(name)
        return names

    def _claims(self, owner: str) -> list[tuple[str, Path]]:
        claims = [claim for claim in self.names("taken") if claim.startswith(f"{owner}.")]
        return [(claim.rpartition(".")[2], self.path / "taken" / claim) for claim in claims]

    def answers(self) -> Iterator[tuple[str, Answer]]:
        """Yield what has been answered and remove it."""
        for name in self.names("done"):
            answer = self.read(f"done/{name}")
            if answer is not None:
                yield name, answer
            (self.path / "done" / name).unlink(missing_ok=True)

    def progress(self) -> list[Progress]:
        """Return everything in training."""
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


class _SlurmDispatch(Dispatch):
    """One run on the cluster: its jobs and what they have not answered yet."""

    def __init__(
        self, submitit: Any, executor: Slurm, spool: Spool, bundles: Sequence[Bundle], monitor: Monitor
    ) -> None:
        super().__init__(bundles, monitor, mixed=executor.mixed)
        self._mode, self._spool = executor.mode, spool
        self._most_jobs = executor.jobs
        # a local controller ends all its tasks with the first one, so there a job of several cores is several jobs
        tasks, self._per_job = (executor.cpus, 1) if executor.mode == "slurm" else (1, executor.cpus)
        self._submitter = submitit.AutoExecutor(
            folder=spool.path / "logs", cluster=executor.mode, **{f"{executor.mode}_max_num_timeout": MOST_TIMEOUTS}
        )
        self._submitter.update_parameters(
            name="gradlab", nodes=1, tasks_per_node=tasks, cpus_per_task=1, **executor.options()
        )
        self._jobs: dict[str, Any] = {}
        self._alive: set[str] = set()
        """Ids of the jobs whose end nobody has noticed yet."""
        self._handed_out: dict[str, TrialBatch] = {}
        self._refused: dict[str, str] = {}
        self._idle_ends = 0
        """Jobs in a row that ended without an answer."""
        self._looked = 0.0

    def adopt(self, base: Path) -> Generator[list[TrialResult]]:
        """Yield results that the jobs of a killed coordinator have left."""
        for path in sorted(base.iterdir()):
            if path != self._spool.path and path.is_dir():
                for answer in _take_leftovers(path):
                    if results := self.accept((), answer):
                        yield results

    def run(self) -> Generator[list[TrialResult]]:
        self._spool.make(self.inputs)
        for batch in self.batches:
            if left := self.unfinished(batch):
                self.hand_out(left)
        if self.trials:
            self._submit(self._most_jobs)
        deadline: float | None = None
        while self.trials:
            if self.monitor.stopping:
                self._spool.stop()
                deadline = deadline or monotonic() + DRAIN_SECONDS
                if monotonic() > deadline or not self._spool.names("taken"):
                    break
            yield from self._gather()
            if self.trials and not self.monitor.stopping and monotonic() - self._looked > LOOK_SECONDS:
                self._looked = monotonic()
                yield from self._look()
            sleep(POLL_SECONDS)
        yield from self._gather()

    def end(self) -> None:
        """Stop all workers and the jobs that still wait."""
        self._spool.stop()
        self.monitor.replace(())
        alive = self._list_alive()
        for name, job in self._jobs.items():
            with suppress(Exception):
                if self._mode == "local":
                    job._process.kill()
                    job._process.wait()
                elif name in alive:
                    job.cancel(check=False)

    def hand_out(self, batch: TrialBatch) -> None:
        """Into the folder."""
        self._handed_out[self._spool.add(batch)] = batch

    def _submit(self, jobs: int) -> None:
        try:
            with signals_blocked(signal.SIGINT, signal.SIGHUP):  # local jobs inherit the mask
                submitted = [self._submitter.submit(Job(str(self._spool.path))) for _ in range(jobs * self._per_job)]
        except Exception as error:  # submitit raises what sbatch says in classes of its own
            reason = str(error).strip().splitlines()
            raise EnvironmentFault(f"cannot submit the job: {reason[-1] if reason else type(error).__name__}") from None
        names = [job.job_id for job in submitted]
        self._jobs |= zip(names, submitted, strict=True)
        self._alive.update(names)
        say(f"submitted {counted(len(names), 'job')} ({self._mode}): {', '.join(names)}")

    def _gather(self) -> Generator[list[TrialResult]]:
        for name, answer in self._spool.answers():
            self._idle_ends = 0
            if results := self.accept(self._handed_out.pop(name, ()), answer):
                yield results

    def _look(self) -> Generator[list[TrialResult]]:
        """Look at the jobs: free the batches of ended ones, submit a new one for what is left."""
        self._spool.touch()
        self.show(self._spool.progress())
        self._read_refusals()
        for job in sorted(self._alive - self._list_alive()):
            self._alive.discard(job)
            answered = bool(self._spool.names("done"))  # it ended with answers that are still to be read
            self._idle_ends += not answered
            for name in self._spool.remove_claims(job):
                batch = self._handed_out.pop(name, ())
                if answered:
                    self.hand_out(batch)
                elif failed := self.retry(batch, f"its job ended {MOST_DEATHS} times before the trial finished"):
                    yield failed
        waiting = len(self._spool.names("todo"))
        wanted = min(self._most_jobs, waiting) if self._mode == "slurm" else 1
        if waiting and len(self._alive) < wanted:
            if self._idle_ends >= MOST_DEATHS * self._most_jobs:
                raise EnvironmentFault(
                    f"{self._idle_ends} jobs in a row ended without a result; their logs are in "
                    f"{self._spool.path / 'logs'}; finished trials are kept: run the same command again to resume"
                )
            self._submit(1)

    def _list_alive(self) -> set[str]:
        """Return the ids of the jobs that are waiting or running; all of them where squeue does not answer."""
        if self._mode == "local":
            return {name for name, job in self._jobs.items() if job.state == "RUNNING"}
        if not self._jobs:
            return set()
        command = [
            "squeue",
            "--noheader",
            "--format=%i",
            f"--states={','.join(ALIVE)}",
            f"--jobs={','.join(self._jobs)}",
        ]
        try:
            asked = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return set(self._jobs)
        if asked.returncode and "Invalid job id" not in asked.stderr:
            return set(self._jobs)  # the controller is restarting: nothing is known
        return set(asked.stdout.split())

    def _read_refusals(self) -> None:
        for worker in self._spool.names("refused"):
            refusal = self._spool.read(f"refused/{worker}")
            if worker not in self._refused and refusal:
                if refusal not in self._refused.values():
                    say(refusal)
                self._refused[worker] = refusal
        jobs = {worker.rpartition(".")[0] for worker in self._refused}
        if self._refused and self._alive <= jobs and not self._spool.names("taken"):
            reason = next(iter(self._refused.values()))
            raise EnvironmentFault(f"no job is on a machine that matches the one that started the run: {reason}")


def _take_leftovers(path: Path) -> list[Answer]:
    """Take the answers in the folder of a dead coordinator, tell its jobs to stop, and remove the folder."""
    try:
        lock = Lock.take(path)
    except StoreError:  # its coordinator lives, or the folder is not ours
        return []
    try:
        spool = Spool(path)
        spool.check()
        spool.stop()
        answers = [answer for _, answer in spool.answers()]
        shutil.rmtree(path, ignore_errors=True)
        return answers
    except EnvironmentFault:
        return []
    finally:
        lock.release()


# Inside a job.


class Job:
    """What submitit pickles and calls on a machine of the cluster."""

    def __init__(self, spool: str) -> None:
        self._spool = spool

    def __call__(self) -> int:
        """Work on batches until none is left."""
        from submitit import JobEnvironment

        job = JobEnvironment()
        return call_aside(partial(work, Path(self._spool), f"{job.job_id}.{job.global_rank}"))

    def checkpoint(self) -> Any:
        """Before the time is over: free the batches of this job and ask to be started again."""
        from submitit import JobEnvironment
        from submitit.helpers import DelayedSubmission

        Spool(Path(self._spool)).put_back(JobEnvironment().job_id)
        return DelayedSubmission(self)


def call_aside(function: Callable[[], T]) -> T:
    """Return `function()`, called in another thread, so that signals do not end a trial.

    submitit leaves by `sys.exit` in its signal handler, which runs in the main thread: inside a trial that would look
    like a user part that fails.
    """
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as fault:
            future.set_exception(fault)

    threading.Thread(target=call, name="gradlab-job", daemon=True).start()  # a daemon ends with the process
    return future.result()


def work(path: Path, name: str) -> int:
    """Take batches and answer them until none is left; return their number. `name`, of the worker, is JOB.RANK."""
    spool = Spool(path)
    inputs = spool.read("inputs")
    if inputs is None or spool.stopping:
        return 0
    spool.put_back(name)  # of a job that was started again after its machine died
    worker = RemoteWorker(inputs)
    if worker.refusal is not None:
        spool.write(f"refused/{name}", worker.refusal)
        return 0

    def send(progress: tuple[Progress, ...]) -> float | None:
        if spool.stopping:
            return None
        with suppress(OSError):
            spool.write(f"live/{name}", progress)
        return REPORT_SECONDS

    worker.report(send)
    answered = 0
    while not worker.monitor.stopping and not spool.stopping and (claim := spool.take(name)) is not None:
        spool.answer(name, claim[0], worker.run(claim[1]))
        answered += 1
    worker.monitor.stop()
    return answered

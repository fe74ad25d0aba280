"""The jobs of a SLURM cluster, submitted by submitit: what a job does, how it is requeued, whether it lives.

submitit sends a job a signal before its time is over or when it is preempted; the job then puts its bundles back and is
requeued. Its local mode runs the same jobs as processes of this machine.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gradlab.errors import EnvironmentFault, InvalidInput
from gradlab.runs.executors.spool import Spool, work

T = TypeVar("T")
MOST_TIMEOUTS = 10_000
"""How often a job may be requeued after its time is over; the coordinator ends a run that makes no progress."""

ALIVE = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "REQUEUED", "COMPLETING")
"""States of a job that has not ended."""


def require_commands(cluster: str) -> None:
    """Raise an error if SLURM's commands are not on this machine."""
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise InvalidInput(
            "sbatch was not found, so SLURM is not installed on this machine; --set-executor mode=local runs the jobs "
            "as local processes"
        )


class Job:
    """What submitit pickles and calls on a machine of the cluster."""

    def __init__(self, spool: str) -> None:
        self._spool = spool

    def __call__(self) -> int:
        """Work on bundles until none is left."""
        from submitit import JobEnvironment

        found = JobEnvironment()
        return call_aside(partial(work, Path(self._spool), f"{found.job_id}.{found.global_rank}"))

    def checkpoint(self) -> Any:
        """Before the time is over: free the bundles of this job and ask to be started again."""
        from submitit import JobEnvironment
        from submitit.helpers import DelayedSubmission

        Spool(Path(self._spool)).put_back(JobEnvironment().job_id)
        return DelayedSubmission(self)


def call_aside(function: Callable[[], T]) -> T:
    """Return `function()`, called in another thread, so that signals do not end a trial.

    submitit leaves by `sys.exit` in its signal handler, which runs in the main thread: inside a trial that would look
    like a user part that fails.
    """
    results: list[T] = []
    faults: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=call, name="gradlab-job", daemon=True)  # ends with the process
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
    if faults:
        raise faults[0]
    return results[0]


class Jobs:
    """The jobs of one run."""

    def __init__(self, submitit: Any, spool: Spool, cluster: str, cpus: int, options: dict[str, Any]) -> None:
        self._cluster = cluster
        many = {f"{cluster}_max_num_timeout": MOST_TIMEOUTS}
        self._executor = submitit.AutoExecutor(folder=spool.path / "logs", cluster=cluster, **many)
        tasks = cpus if cluster == "slurm" else 1  # a local controller ends all its tasks with the first one
        self._executor.update_parameters(name="gradlab", nodes=1, tasks_per_node=tasks, cpus_per_task=1, **options)
        self._spool = spool
        self._each = 1 if cluster == "slurm" else cpus
        self._jobs: list[Any] = []

    def submit(self, count: int) -> list[str]:
        """Submit so many jobs; gives their ids."""
        try:
            with _interrupts_blocked():  # local jobs inherit the mask: the coordinator decides what Ctrl-C means
                new = [self._executor.submit(Job(str(self._spool.path))) for _ in range(count * self._each)]
        except Exception as error:  # submitit raises what sbatch says in classes of its own
            reason = str(error).strip().splitlines()
            raise EnvironmentFault(f"cannot submit the job: {reason[-1] if reason else type(error).__name__}") from None
        self._jobs += new
        return [job.job_id for job in new]

    def alive(self) -> set[str]:
        """Ids of the jobs that are waiting or running."""
        if self._cluster != "slurm":
            return {job.job_id for job in self._jobs if job.state == "RUNNING"}
        ids = [job.job_id for job in self._jobs]
        return set(list_alive(ids)) if ids else set()

    def cancel(self) -> None:
        """End what is left."""
        for job in self._jobs:
            with suppress(Exception):
                if self._cluster != "slurm":
                    job._process.kill()
                    job._process.wait()
                elif job.job_id in self.alive():
                    job.cancel(check=False)


def list_alive(ids: Sequence[str]) -> list[str]:
    """Ask squeue which jobs have not ended; all of them where it does not answer."""
    command = ["squeue", "--noheader", "--format=%i", f"--states={','.join(ALIVE)}", f"--jobs={','.join(ids)}"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return list(ids)
    if asked.returncode and "Invalid job id" not in asked.stderr:
        return list(ids)  # the controller is restarting: nothing is known
    return asked.stdout.split()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

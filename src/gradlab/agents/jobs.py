"""Processes of their own in which studies are run and explored: the server stays responsive, and may die.

A job is a folder `.gradlab/ID` with `job.json`, `study.yaml`, a lock that its process holds while it lives, and what it
said. Whoever finds a job without a living process and without an end can start it again; results are in the run's
folder, and nothing is trained twice.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from time import time
from typing import Any

from gradlab.errors import GradlabError, StoreError
from gradlab.runs.store.files import Lock, is_held, read_json_object, write_bytes
from gradlab.spec.base import plain_json

FOLDER, JOB, STUDY, LOG, NUMBERS = ".gradlab", "job.json", "study.yaml", "log.txt", "numbers.json"
GRACE = 60
"""Seconds after its time is up in which a job commits and reports; then its process ends at once."""
COSTS = {"parameters", "flops", "seconds_per_epoch", "epochs", "steps"}
TAIL, MOST_FIGURES, FRESH = 1500, 2, 10


class Jobs:
    """The jobs of a project. Processes that were started here are reaped; those of other servers are seen as well."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def folder(self, name: str) -> Path:
        """The folder of a job."""
        return self.root / FOLDER / name

    def start(self, name: str, study: str, **job: Any) -> subprocess.Popen[bytes]:
        """Start a process for a job, in the project's folder and in a session of its own."""
        folder = self.write(name, study, job)
        command = [sys.executable, "-m", "gradlab.agents.jobs", str(folder)]
        with self._lock, (folder / LOG).open("ab") as said:
            process = subprocess.Popen(
                command, cwd=self.root, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
            self._processes[name] = process
        return process

    def write(self, name: str, study: str, job: Mapping[str, Any]) -> Path:
        """Write down what a job is; gives its folder."""
        folder = self.folder(name)
        write_bytes(folder / STUDY, study.encode())
        write_bytes(folder / JOB, json.dumps(plain_json(dict(job))).encode())
        return folder

    def alive(self, name: str) -> bool:
        """Whether a process works on it: one that was just started here, or one that holds its lock."""
        process = self._processes.get(name)
        return (process is not None and process.poll() is None) or is_held(self.folder(name))

    def fresh(self, name: str) -> bool:
        """Whether it was started a moment ago, perhaps by another server: its process may not hold its lock yet."""
        with suppress(OSError):
            return time() - (self.folder(name) / JOB).stat().st_mtime < FRESH
        return False

    def running(self) -> list[str]:
        """The jobs that are going on."""
        with suppress(OSError):
            return [path.name for path in sorted((self.root / FOLDER).iterdir()) if self.alive(path.name)]
        return []

    def said(self, name: str) -> str:
        """The end of what it said."""
        try:
            return (self.folder(name) / LOG).read_bytes()[-TAIL:].decode("utf8", "replace").strip()
        except OSError:
            return ""

    def numbers(self, name: str) -> Mapping[str, Any]:
        """What an exploration found; empty as long as it has found nothing."""
        return read_json_object(self.folder(name) / NUMBERS)


def main(folder: Path) -> int:
    """Do a job."""
    try:
        lock = Lock.take(folder)
    except StoreError:  # another process does it
        return 0
    job = read_json_object(folder / JOB)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    seconds = float(job["max_seconds"])
    timers = [
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM)),
        threading.Timer(seconds + GRACE, os._exit, (1,)),
    ]
    for timer in timers:
        timer.daemon = True
        timer.start()
    if hasattr(os, "nice"):
        os.nice(5)
    try:
        with redirect_stdout(sys.stderr):
            work(folder, job)
    except GradlabError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("stopped: its time was up, or it was asked to end\n")
        return 1
    finally:
        lock.release()
    return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def work(folder: Path, job: Mapping[str, Any]) -> None:
    """Run or explore, in this process."""
    _explore(folder, job) if job["kind"] == "explore" else _run(folder, job)


def _run(folder: Path, job: Mapping[str, Any]) -> None:
    """A frozen study: results, verdicts and report in its run folder, its outcome in the project's ledger."""
    from gradlab import api

    out = str(job["folder"])
    command = shlex.join(["gradlab", "run", (folder / STUDY).relative_to(Path.cwd()).as_posix(), "--out", out])
    api.run(folder / STUDY, out=out, project=".", figures=False, command=command)


def _explore(folder: Path, job: Mapping[str, Any]) -> None:
    """A study without claims, or a command: numbers and figures, kept in memory until then."""
    from gradlab import api
    from gradlab.report.draw import render_chart

    if job.get("command"):
        train = api.command(shlex.split(job["command"]), metric=job.get("metric") or "loss")
        result = api.compare(train, job["arms"], int(job["seeds"]), figures=False)
    else:
        result = api.run(folder / STUDY, figures=False)
    measured, rows = result.measured, []
    first = measured.headline.metric if measured.headline is not None else None
    for metric in sorted(set(measured.metrics) - COSTS, key=lambda name: (name != first, name)):
        for group in measured.group_names:
            seen = [float(value) for value in measured.values(metric, group).values() if value is not None]
            if seen:
                ends = {"median": statistics.median(seen), "smallest": min(seen), "largest": max(seen)}
                rows.append({"group": group, "metric": metric, **ends, "seeds": len(seen)})
    drawn = []
    for name, chart in list(result.charts.items())[:MOST_FIGURES] if job.get("figures", True) else ():
        write_bytes(folder / f"{name}.png", render_chart(chart, "png"))
        drawn.append(f"{name}.png")
    found = {"numbers": rows, "figures": drawn, "trials": dict(result.story.counts), "unfinished": result.unfinished}
    write_bytes(folder / NUMBERS, json.dumps(plain_json(found)).encode())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

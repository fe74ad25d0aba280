"""The runs below a folder: listed with their state, started, stopped, moved aside, compared.

A run that is started here is a process of its own, `gradlab run STUDY`: it goes on when the server ends, and nothing of
it is lost when the server is killed. No name reaches a shell, and no path leaves the folder.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

from gradlab import studies
from gradlab.analysis.against import against
from gradlab.errors import GradlabError, InvalidInput, nearest, shortened
from gradlab.report.result import open_run
from gradlab.report.tables import Table, summarize_against, tabulate_results, tabulate_settings
from gradlab.runs.store.files import LOCK, describe_holder, holder, is_held
from gradlab.runs.store.folder import move_aside
from gradlab.runs.store.records import RESULTS
from gradlab.runs.store.status import find_runs, status
from gradlab.studies.loading import load
from gradlab.web.settings import RUNNING, Refused
from gradlab.web.uploads import Scratch

FRESH, PAUSE = 0.8, 5.0
"""Seconds for which a listing is given to all pages that ask: so many, and so many times as long as it took to make."""
MOST_SEEDS, TAIL = 1000, 2000
SECONDS = 180
"""Longest that an audit before a start may take."""


@dataclass
class StartedRun:
    """A process that was started from the page."""

    study: str
    command: list[str]
    process: subprocess.Popen[bytes]
    log: Path

    def to_json(self) -> dict[str, Any]:
        """Its command, whether it is going on, and the end of what it said."""
        code = self.process.poll()
        said = self.log.read_bytes()[-TAIL:].decode("utf8", "replace").strip()
        return {"study": self.study, "command": " ".join(self.command), "code": code, "said": said}


class Runs:
    """All runs below a folder. Every method may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._logs = Scratch()
        self._started: list[StartedRun] = []
        self._stopped: set[int] = set()
        self._known: dict[Path, tuple[tuple[int, ...], dict[str, Any]]] = {}
        self._listed: tuple[float, dict[str, Any]] | None = None
        """Until when a listing is good, and the listing."""
        self._lock = threading.Lock()

    # ------------------------------------------------------------------ what is there

    def listing(self) -> dict[str, Any]:
        """The state of every run, newest first, and of the processes that were started here."""
        with self._lock:
            if self._listed is None or monotonic() > self._listed[0]:
                began = monotonic()
                runs = [self._status(path) for path in find_runs(self.folder)]
                runs.sort(key=lambda run: (-run["alive"], -run["changed"]))
                found = {
                    "folder": str(self.folder),
                    "runs": runs,
                    "started": [run.to_json() for run in self._started[-8:]],
                }
                now = monotonic()
                self._listed = (now + max(FRESH, PAUSE * (now - began)), found)
            return self._listed[1]

    def _status(self, path: Path) -> dict[str, Any]:
        """The state of one run; that of one that nobody writes is read once."""
        stamp = tuple(_changed(path / name) for name in (".", "plan.json", RESULTS, "report.html"))
        alive = is_held(path)
        known = self._known.get(path)
        if known is not None and known[0] == stamp and not alive and not known[1]["alive"]:
            return known[1]
        try:
            found = status(path).to_json()
        except (GradlabError, OSError) as error:
            found = {"study": path.name, "question": str(error), "alive": False, "planned": 0, "done": 0, "failed": 0,
                     "diverged": 0, "running": [], "left": 0, "finished": False, "hash": ""}  # fmt: skip
        found |= {
            "id": path.relative_to(self.folder).as_posix(),
            "report": (path / "report.html").is_file(),
            "changed": max(stamp) / 1e9,
            "aside": re.search(r"~\d+$", path.name) is not None,
        }
        self._known[path] = (stamp, found)
        return found

    def studies(self) -> dict[str, Any]:
        """The built-in studies by topic, and the study files in the folder."""
        return {"topics": _topics(), "own": self._study_files()}

    def _study_files(self) -> list[str]:
        found = (path for pattern in ("*.yaml", "*.yml") for path in self.folder.glob(pattern))
        return sorted(path.name for path in found if path.is_file())

    def find(self, identity: Any) -> Path:
        """The folder of a run; only what is listed can be named."""
        runs = {path.relative_to(self.folder).as_posix(): path for path in find_runs(self.folder)}
        if not isinstance(identity, str) or identity not in runs:
            raise InvalidInput(f"there is no run {shortened(identity)} below this folder")
        return runs[identity]

    def find_report(self, identity: Any) -> Path:
        """The report of a run."""
        page = self.find(identity) / "report.html"
        if not page.is_file() or not page.resolve().is_relative_to(self.folder):
            raise InvalidInput(f"{identity} has no report yet; it is written when the run ends or stops")
        return page

    def _find_study(self, study: Any) -> str:
        """A built-in name, or a file in the folder."""
        known = (*studies.names(), *self._study_files())
        if not isinstance(study, str) or study not in known:
            raise InvalidInput(f"there is no study {shortened(study)}{nearest(study, known)}")
        return study

    # ------------------------------------------------------------------ what can be done

    def check(self, study: Any) -> Mapping[str, Any]:
        """Audit and plan of a study, before it is started."""
        name = self._find_study(study)
        return {
            "study": name,
            "audit": self._ask("audit", name, "--seeds", "2"),
            "plan": self._ask("run", name, "--dry-run"),
        }

    def start(self, study: Any, seeds: Any = None, quick: Any = False) -> dict[str, Any]:
        """Start a study, or resume its run."""
        words = [self._find_study(study)]
        if seeds is not None:
            if not isinstance(seeds, int) or isinstance(seeds, bool) or not 1 <= seeds <= MOST_SEEDS:
                raise InvalidInput(f"seeds: a whole number from 1 to {MOST_SEEDS:,} was expected")
            words += ["--seeds", str(seeds)]
        words += ["--quick"] if quick is True else []
        with self._lock:
            if sum(run.process.poll() is None for run in self._started) >= RUNNING:
                raise Refused(f"{RUNNING} runs that were started here are going on; stop one of them first")
            log = self._logs.path / f"{len(self._started)}.log"
            with log.open("wb") as said:
                process = subprocess.Popen(
                    stdout=said, stderr=said, start_new_session=True, **self._call("run", *words)
                )
            started = StartedRun(words[0], ["gradlab", "run", *words], process, log)
            self._started.append(started)
            self._listed = None
        return started.to_json()

    def stop(self, identity: Any) -> dict[str, str]:
        """Stop a run as the first Ctrl-C does: finished trials are kept and the report is written."""
        folder = self.find(identity)
        words = holder(folder)
        pid = words.get("pid")
        if not is_held(folder) or not isinstance(pid, int):
            raise InvalidInput(f"{identity} is not running")
        if words.get("host") != socket.gethostname() or not _has_open(pid, folder / LOCK):
            raise InvalidInput(f"{identity} is run by {describe_holder(folder)}; stop it there")
        if pid in self._stopped:  # a second signal would end the process at once
            raise InvalidInput(f"{identity} is stopping already: it keeps its trials and writes the report")
        try:
            os.kill(pid, signal.SIGTERM)
        except OSError as error:
            raise InvalidInput(f"{identity} cannot be stopped from here: {error.strerror}") from None
        self._stopped.add(pid)
        return {"said": f"{identity} is stopping: finished trials are kept and the report is written."}

    def move_aside(self, identity: Any) -> dict[str, str]:
        """Rename a run, so that the same study starts afresh; nothing is removed."""
        place = move_aside(self.find(identity))
        with self._lock:
            self._listed = None
        return {"said": f"{identity} is now {place.relative_to(self.folder).as_posix()}."}

    def compare(self, first: Any, second: Any) -> dict[str, Any]:
        """Two runs beside each other: what differs in the studies and in the results."""
        a, b = self.find(first), self.find(second)
        found = against(open_run(a).measured, open_run(b).measured)
        tables = (tabulate_settings(found), tabulate_results(found))
        return {
            "first": first,
            "second": second,
            "summary": summarize_against(found),
            "tables": [_table_json(table) for table in tables if table is not None],
        }

    def close(self) -> None:
        """Note which processes have ended, and remove their logs; those that are going on go on."""
        for run in self._started:
            run.process.poll()
        self._logs.remove()

    def _call(self, *words: str) -> dict[str, Any]:
        """Arguments of `subprocess` that call gradlab in the folder."""
        environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
        command = [sys.executable, "-m", "gradlab", *words]
        return {"args": command, "cwd": self.folder, "stdin": subprocess.DEVNULL, "env": environment}

    def _ask(self, *words: str) -> dict[str, Any]:
        """The answer of a command with --json, or what it says is wrong."""
        try:
            done = subprocess.run(capture_output=True, timeout=SECONDS, check=False, **self._call(*words, "--json"))
            answer: dict[str, Any] = json.loads(done.stdout)
            return answer
        except subprocess.TimeoutExpired:
            return {"error": f"no answer within {SECONDS} s; run `gradlab {' '.join(words)}` in a terminal"}
        except ValueError:
            return {"error": done.stderr.decode("utf8", "replace").replace("gradlab: ", "", 1).strip()[-TAIL:]}


@cache
def _topics() -> list[dict[str, Any]]:
    """The built-in studies by topic, with question and time; they do not change while the server runs."""
    times = studies.run_times()

    def describe(name: str) -> dict[str, Any]:
        return {"name": name, "question": load(name).study.question, "seconds": times.get(name)}

    return [{"topic": topic, "studies": list(map(describe, names))} for topic, names in studies.topics().items()]


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _has_open(pid: int, path: Path) -> bool:
    """Whether a process has a file open; where the system does not tell, the lock file is believed."""
    opened = Path(f"/proc/{pid}/fd")
    if not Path("/proc/self/fd").is_dir():
        return True
    try:
        return any(os.path.samefile(entry, path) for entry in opened.iterdir() if entry.exists())
    except OSError:
        return False


def _table_json(table: Table) -> dict[str, Any]:
    return {"title": table.title, "header": list(table.header), "rows": [list(row) for row in table.rows],
            "numbers": list(table.numbers), "notes": list(table.notes)}  # fmt: skip

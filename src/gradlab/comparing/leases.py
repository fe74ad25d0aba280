"""Folders that belong to a living process: of a command that runs, of git worktrees. Whoever comes next cleans up.

A lease is a folder whose name says which process made it. It is removed when its work is done. If the process was
killed, the next one to ask for a lease on this machine ends the command that still runs in it, gives the worktrees back
to git, and removes the folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from platform import node
from uuid import uuid4

from gradlab.cache import cache_folder

GROUP, REPOSITORY = "process-group", "repository"
"""Files of a lease: the command's process with its start, and the git repository that worktrees belong to."""


@contextmanager
def lease() -> Iterator[Path]:
    """A private folder that is removed at the end of the block, or by the next process if this one is killed."""
    root = _root()
    folder = root / f"{_host()}~{os.getpid()}~{_started(os.getpid())}~{uuid4().hex[:8]}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        end(folder)


def keep_process(folder: Path, pid: int) -> None:
    """Note the process of a lease, the first of its own group."""
    (folder / GROUP).write_text(f"{pid} {_started(pid)}", encoding="utf8")


def keep_repository(folder: Path, repository: Path) -> None:
    """Note that folders in a lease are worktrees of this repository."""
    (folder / REPOSITORY).write_text(str(repository), encoding="utf8")


def sweep() -> None:
    """End what killed processes of this machine have left."""
    for folder in _root().glob("*~*~*~*"):
        host, pid, started, _ = folder.name.rsplit("~", 3)
        if host == _host() and pid.isdigit() and not _alive(int(pid), started):
            end(folder)


def end(folder: Path) -> None:
    """End the process of a lease if it runs, give its worktrees back, and remove it."""
    with suppress(OSError, ValueError):
        pid, started = (folder / GROUP).read_text(encoding="utf8").split()
        if _alive(int(pid), started):
            os.killpg(int(pid), signal.SIGKILL)
    with suppress(OSError):
        repository = (folder / REPOSITORY).read_text(encoding="utf8")
        for place in folder.iterdir():
            if place.is_dir():
                subprocess.run(
                    ["git", "-C", repository, "worktree", "remove", "--force", str(place)], capture_output=True
                )
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["git", "-C", repository, "worktree", "prune"], capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


@cache
def _root() -> Path:
    return cache_folder("leases") or Path(tempfile.mkdtemp(prefix="gradlab-leases-"))


def _host() -> str:
    return node().replace("~", "-") or "here"


def _started(pid: int) -> str:
    """When a process began, in ticks of the kernel; empty where the system does not say. Numbers of processes recur."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf8").rpartition(")")[2].split()[19]
    return "0"


def _alive(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return _started(pid) == started

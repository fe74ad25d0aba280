"""Compile kernels once per machine: of several workers that start at once, one compiles and the others wait for it.

The compiled kernels are in a cache folder that all processes of a user on a machine share. The lock is a file beside it
and belongs to the living process, so after any death it is free. Without a cache or without locks (some network file
systems), every worker compiles for itself: slower, never wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from gradlab.cache import cache_folder
from gradlab.engines.base import Engine
from gradlab.spec.config import Config
from gradlab.trials.trial import Trial

FOLDER, NAME = "locks", "compile.lock"


class Kernels:
    """What this process can train without compiling, as far as it has looked: every configuration is looked at once."""

    def __init__(self) -> None:
        self._configs: dict[int, Config] = {}
        """Configurations that were looked at, by identity; kept, so that no other gets the same identity."""
        self._ready: set[tuple[Engine, bool]] = set()
        """Engines whose kernels are there; an engine has other kernels for trials that train together."""

    def find_cold(self, trials: Iterable[Trial]) -> Trial | None:
        """Return a trial that has to compile kernels first, once for every kind of kernels; None if there is none."""
        for trial in trials:
            if id(trial.config) in self._configs:
                continue
            asked: Engine = trial.config.train.engine.build(trial.catalog)
            engine, _ = asked.choose(trial.config, trial.catalog)
            kind = engine, engine.group_size(trial.config, trial.catalog) > 1
            self._configs[id(trial.config)] = trial.config
            if kind not in self._ready:
                self._ready.add(kind)
                if engine.announcement(trial.config, trial.catalog) is not None:
                    return trial
        return None


@contextmanager
def compiling_alone() -> Iterator[None]:
    """Hold this machine's lock for compiling; wait for the process that holds it."""
    with ExitStack() as stack:
        _take(stack)
        yield


def _take(stack: ExitStack) -> None:
    folder = cache_folder(FOLDER)
    if folder is None:
        return
    try:
        import fcntl

        held: Any = stack.enter_context((folder / NAME).open("ab"))  # closing it frees the lock
        fcntl.flock(held, fcntl.LOCK_EX)
    except (ImportError, OSError):
        return

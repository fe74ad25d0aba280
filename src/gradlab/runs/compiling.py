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
from gradlab.trials.trial import Trial

FOLDER, NAME = "locks", "compile.lock"


def is_cold(trials: Iterable[Trial]) -> bool:
    """Whether training one of these would compile kernels first."""
    seen: set[int] = set()
    for trial in trials:
        if id(trial.config) in seen:
            continue
        seen.add(id(trial.config))
        engine: Engine = trial.config.train.engine.build(trial.catalog)
        chosen, _ = engine.choose(trial.config, trial.catalog)
        if chosen.announcement(trial.config, trial.catalog) is not None:
            return True
    return False


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

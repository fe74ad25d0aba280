"""Where built-in parts are: one folder per kind, and every file in it is a part of that name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from gradlab.parts.part import Part, parts_of

FOLDERS: Mapping[str, str] = {
    "activation": "gradlab.network.activations",
    "skip": "gradlab.network.skips",
    "norm": "gradlab.network.norms",
    "init": "gradlab.network.inits",
    "loss": "gradlab.network.losses",
    "optimizer": "gradlab.optim.optimizers",
    "schedule": "gradlab.optim.schedules",
    "task": "gradlab.data",
    "probe": "gradlab.probes",
    "engine": "gradlab.engines",
    "caveat": "gradlab.audits.caveats",
    "executor": "gradlab.runs.executors",
    "figure": "gradlab.report.figures",
    "tracker": "gradlab.trackers",
}
"""Kind of part -> its folder. Every module in it is a part, except `base` and what the folder lists in `SUPPORT`."""


@cache
def built_in_names(kind: str) -> tuple[str, ...]:
    """The names of the files in the folder of a kind; imports the folder only, no part."""
    folder = importlib.import_module(FOLDERS[kind])
    support = {"base", *getattr(folder, "SUPPORT", ())}
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folder.__path__) if module.name not in support))


@cache
def built_in(kind: str, name: str) -> type[Part]:
    """The part of this kind and name; imports its file."""
    module = importlib.import_module(f"{FOLDERS[kind]}.{name}")
    return parts_of(module)[kind, name]

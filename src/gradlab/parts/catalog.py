"""The parts that a study can name: built-in ones, found by where they stand, and those of the user's files."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from gradlab.errors import GradlabError, PartError, described, offer, shortened
from gradlab.parts import imports
from gradlab.parts.part import Part, StandIn, parts_of, with_article

HOMES: Mapping[str, str] = {
    "activation": "gradlab.network.activations",
    "skip": "gradlab.network.skips",
    "norm": "gradlab.network.norms",
    "init": "gradlab.network.inits",
    "loss": "gradlab.network.losses",
    "optimizer": "gradlab.optim.optimizers",
    "schedule": "gradlab.optim.schedules",
    "task": "gradlab.data",
    "probe": "gradlab.probes",
    "score": "gradlab.scores",
    "engine": "gradlab.engines",
    "caveat": "gradlab.audits.caveats",
    "executor": "gradlab.runs.executors",
    "figure": "gradlab.report.figures",
    "tracker": "gradlab.trackers",
}
"""Kind of part -> the file or the folder that holds its parts. A small family is one file, a larger one a folder."""
NAMED_BY_FILE = ("engine", "executor", "tracker")
"""Kinds whose files are named like their only part: listing names must not import Numba, Ray or MLflow."""


@cache
def built_in_names(kind: str) -> tuple[str, ...]:
    """The names of the built-in parts of a kind."""
    return tuple(sorted(_files(kind) if kind in NAMED_BY_FILE else _family(kind)))


@cache
def built_in(kind: str, name: str) -> type[Part]:
    """The part of this kind and name."""
    if kind in NAMED_BY_FILE:
        return parts_of(importlib.import_module(f"{HOMES[kind]}.{name}"))[kind, name]
    return _family(kind)[name]


@cache
def _family(kind: str) -> Mapping[str, type[Part]]:
    """Every class of a kind in its file, or in the files of its folder."""
    home = importlib.import_module(HOMES[kind])
    files = [importlib.import_module(f"{home.__name__}.{file}") for file in _files(kind)]
    return {name: part for file in (home, *files) for (of, name), part in parts_of(file).items() if of == kind}


def _files(kind: str) -> list[str]:
    """The files of a kind's folder that hold parts: all but `base` and what the folder lists in `SUPPORT`."""
    home = importlib.import_module(HOMES[kind])
    support = {"base", *getattr(home, "SUPPORT", ())}
    return [file.name for file in pkgutil.iter_modules(getattr(home, "__path__", ())) if file.name not in support]


# Parts of the user's own: a file is run, pinned by its content, and searched for parts.

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""What a part may be called."""


@dataclass(frozen=True)
class PartFile:
    """A user's file of parts, pinned by what it contains and by what it imports of the user's own."""

    path: str
    sha256: str
    helpers: tuple[tuple[str, str], ...] = ()
    """Modules of the user's own that it imports, each with the SHA-256 of its file."""

    @property
    def identity(self) -> str:
        """One hash of the file and its helpers; part of every trial id."""
        if not self.helpers:
            return self.sha256
        return sha256(repr((self.sha256, self.helpers)).encode()).hexdigest()


def load_file(path: Path) -> tuple[PartFile, dict[tuple[str, str], type[Part]]]:
    """Run a user's file and give the parts it defines; every failure is a `PartError` that names the file."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise PartError(f"parts file {path}: {error.strerror or error}") from None
    digest = sha256(source).hexdigest()
    module_name = f"gradlab_parts_{digest[:16]}"
    module = sys.modules.get(module_name)
    if module is None:
        module = ModuleType(module_name)
        module.__file__ = str(path)
        sys.modules[module_name] = module  # dataclasses look their module up while the file runs
        try:
            exec(compile(source, str(path), "exec"), module.__dict__)
        except BaseException as error:
            del sys.modules[module_name]
            if isinstance(error, KeyboardInterrupt):
                raise
            raise PartError(f"parts file {path}: {described(error)}") from error
    helpers = imports.of_source(source, path)
    found = parts_of(module)
    for kind, name in found:
        if kind not in HOMES:
            raise PartError(f"parts file {path}: {shortened(name)} extends no base; see docs/parts.md for the bases")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise PartError(
                f"parts file {path}: {shortened(name)} is not a name for {with_article(kind)}; use a-z, 0-9 and _"
            )
    if not found:
        raise PartError(
            f"parts file {path}: defines no part; a part is a class with a `name` that extends one of "
            f"the bases for {', '.join(HOMES)} (see docs/parts.md)"
        )
    return PartFile(str(path), digest, helpers), found


# The catalog: the parts that a study can name, built in or from the user's files.


@dataclass(frozen=True)
class Catalog:
    """The parts a study can name: the built-in ones and those of the user's files."""

    files: tuple[PartFile, ...] = ()
    _own: Mapping[tuple[str, str], type[Part]] = field(default_factory=dict, repr=False, compare=False)
    executed: bool = True
    """Whether the files' code was run. If not, names that are not built in are represented by a `StandIn`."""

    def __reduce__(self) -> Any:
        """Pickle the file list only: another process loads the files again and checks that they are the same."""
        return (_reloaded, (self.files,)) if self.executed else (Catalog, (self.files, {}, False))

    @staticmethod
    def unread(files: Iterable[PartFile]) -> Catalog:
        """A catalog that lists the files without running their code, for opening runs that are not trusted."""
        return Catalog(tuple(files), {}, executed=False)

    @staticmethod
    def with_files(paths: Iterable[str | Path]) -> Catalog:
        """Load the user's files (this runs their code) and add their parts to the built-in ones."""
        files, own = [], {}
        for path in map(Path, paths):
            file, found = load_file(path)
            for key, part in found.items():
                if key in own or key[1] in built_in_names(key[0]):
                    raise PartError(
                        f"{path}: there already is {with_article(key[0])} named {key[1]!r}; choose another name"
                    )
                own[key] = part
            files.append(file)
        return Catalog(tuple(files), own)

    def names(self, kind: str) -> list[str]:
        """All names of a kind, sorted."""
        return sorted([*built_in_names(kind), *(name for k, name in self._own if k == kind)])

    def ranked(self, kind: str) -> list[str]:
        """All names of a kind by the parts' own `rank`, and by name where ranks are equal."""
        return sorted(self.names(kind), key=lambda name: (self.get(kind, name).rank, name))

    def get(self, kind: str, name: object) -> type[Part]:
        """The part class, or a `PartError` that lists what there is."""
        if not isinstance(name, str) or name not in self.names(kind):
            if not self.executed and isinstance(name, str) and NAME.fullmatch(name):
                return type("StandIn", (StandIn,), {"part": kind, "name": name, "__doc__": StandIn.__doc__})
            accepted = self.names(kind)
            raise PartError(f"{shortened(name)} is not {with_article(kind)}{offer(name, accepted)}")
        return self._own.get((kind, name)) or built_in(kind, name)

    def make(self, kind: str, name: str, parameters: Mapping[str, Any]) -> Any:
        """The part with its parameters."""
        return self.get(kind, name).parse(parameters)


def _reloaded(files: tuple[PartFile, ...]) -> Catalog:
    catalog = Catalog.with_files([file.path for file in files]) if files else BUILT_IN
    if catalog.files != files:
        raise PartError(f"parts file {files[0].path}: has changed since the study was loaded; start the run again")
    return catalog


BUILT_IN = Catalog()


@contextmanager
def blaming(own: bool) -> Iterator[None]:
    """Inside, with parts of the user's own, whatever they raise (also `sys.exit`) becomes a `PartError`."""
    try:
        yield
    except (GradlabError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if not own:
            raise
        raise PartError(f"a part of the study's own fails: {described(error)}") from error

"""Parts: the file is the plug-in.

An activation, skip, norm, init, loss, optimizer, schedule, task, probe, score, engine, caveat, executor, figure or
tracker is a *part*: a small class. A built-in part exists because its class stands in the file or folder of its kind
(`HOMES`); a user's part exists because a study names its file (`parts: [./my_skip.py]`). No second list is edited.

Everything needed to write one is imported from here:

    from gradlab.parts import Activation

    class Bent(Activation):
        '''f(x) = x + c tanh(x).'''

        name = "bent"
        c: float = 0.5

A part is a frozen dataclass (subclassing makes it one), so its annotated attributes are its parameters, checked by
pydantic and settable from YAML:

    activation: bent                                # in a study
    activation: {kind: bent, c: 0.2}

The base classes and what they are used with are imported when they are asked for, so this package stays light.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import pkgutil
import re
import sys
import sysconfig
from abc import ABC
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

from pydantic import ConfigDict, TypeAdapter

from gradlab.errors import GradlabError, PartError, described, offer, shortened, with_article

if TYPE_CHECKING:
    from gradlab.audits.caveats.base import Caveat as Caveat
    from gradlab.audits.caveats.base import Design as Design
    from gradlab.audits.caveats.base import Remark as Remark
    from gradlab.data.base import Dataset as Dataset
    from gradlab.data.base import Facts as Facts
    from gradlab.data.base import Task as Task
    from gradlab.engines.base import Engine as Engine
    from gradlab.network.activations import Activation as Activation
    from gradlab.network.inits import Init as Init
    from gradlab.network.layout import Tensor as Tensor
    from gradlab.network.losses import Loss as Loss
    from gradlab.network.noises import Noise as Noise
    from gradlab.network.norms import Norm as Norm
    from gradlab.network.skips import Skip as Skip
    from gradlab.optim.optimizers import Optimizer as Optimizer
    from gradlab.optim.schedules import Horizon as Horizon
    from gradlab.optim.schedules import Reaction as Reaction
    from gradlab.optim.schedules import Schedule as Schedule
    from gradlab.probes import LayerView as LayerView
    from gradlab.probes import Probe as Probe
    from gradlab.report.figures.base import Figure as Figure
    from gradlab.runs.executors.base import Executor as Executor
    from gradlab.scores import Score as Score
    from gradlab.trackers.base import Session as Session
    from gradlab.trackers.base import Tracker as Tracker

HOMES: Mapping[str, str] = {
    "activation": "gradlab.network.activations",
    "skip": "gradlab.network.skips",
    "norm": "gradlab.network.norms",
    "noise": "gradlab.network.noises",
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


@dataclass_transform(frozen_default=True)
class Part(ABC):
    """The base of every base: subclassing makes a class a frozen dataclass whose fields are checked parameters.

    To write a part, extend the base of its kind (`gradlab.parts.Skip`, …), give it a `name` and a docstring, annotate
    its parameters, and write the methods that the base asks for. A part holds nothing but its parameters: it is built
    again wherever it is needed, also in other processes, so what it gives may depend only on them and on what its
    methods are given. Randomness comes in as uniform numbers or generators, never from a source of its own.
    """

    part: ClassVar[str]
    """The kind of part; the base of the kind sets it."""
    name: ClassVar[str]
    """What studies call it: a-z, 0-9 and _, at most 40 characters. The file of a built-in part has the same name."""
    called: ClassVar[str] = ""
    """What people call it in legends and tables: `He init`. Empty: its name and its kind, `layer norm`."""
    rank: ClassVar[int] = 50
    """Its place among the parts of its kind where all of them are shown: lower first, equal ranks by name."""
    later: ClassVar[tuple[str, ...]] = ()
    """Parameters added after ids were fixed: at their default they do not enter the ids of trials."""
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        description = cls.__dict__.get("__doc__")
        dataclass(frozen=True)(cls)
        cls.__doc__ = description  # dataclass would put the signature where there is none

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> Self:
        """The part with these parameters; pydantic's `ValidationError` where they do not fit."""
        made: Self = _adapter(cls).validate_python(dict(parameters))
        return made

    @classmethod
    def parameter_names(cls) -> list[str]:
        """The parameters that YAML may set."""
        return [parameter.name for parameter in fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def default(cls, parameter: str) -> Any:
        """The default of a parameter that has one."""
        return next(field.default for field in fields(cls) if field.name == parameter)  # type: ignore[arg-type]

    @classmethod
    def accepts(cls, parameter: object) -> bool:
        """Whether YAML may set this parameter."""
        return parameter in cls.parameter_names()

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().split("\n")[0]

    def parameters(self) -> dict[str, Any]:
        """Every parameter with its value, defaults included."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


@cache
def _adapter(cls: type[Part]) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


class StandIn(Part):
    """Placeholder for a part whose code was not run: it has a name and parameters, and no behavior."""

    given: Any = None

    @classmethod
    def accepts(cls, parameter: object) -> bool:
        """Any name: without its code, the real parameters are unknown."""
        return isinstance(parameter, str)

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> Self:
        """The parameters unchecked."""
        return cls(dict(parameters))

    def parameters(self) -> dict[str, Any]:
        """The parameters that were given."""
        return dict(self.given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise PartError(
            f"the {self.part} {self.name!r} is code that came with the run, and opening a run executes nothing; "
            "--trust (in Python: open_run(…, trust=True)) runs it"
        )


def parts_of(module: ModuleType) -> dict[tuple[str, str], type[Part]]:
    """The parts that a module itself defines, by kind and name."""
    parts: dict[tuple[str, str], type[Part]] = {}
    for value in vars(module).values():
        defined_here = isinstance(value, type) and issubclass(value, Part) and value.__module__ == module.__name__
        if defined_here and getattr(value, "name", None) is not None:
            parts[getattr(value, "part", ""), value.name] = value
    return parts


# Built-in parts, found by where they stand.


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
    helpers = imported_modules(source, path)
    parts = parts_of(module)
    for kind, name in parts:
        if kind not in HOMES:
            raise PartError(f"parts file {path}: {shortened(name)} extends no base; see docs/parts.md for the bases")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise PartError(
                f"parts file {path}: {shortened(name)} is not a name for {with_article(kind)}; use a-z, 0-9 and _"
            )
    if not parts:
        raise PartError(
            f"parts file {path}: defines no part; a part is a class with a `name` that extends one of "
            f"the bases for {', '.join(HOMES)} (see docs/parts.md)"
        )
    return PartFile(str(path), digest, helpers), parts


# What a part's file imports of the user's own. Imports are found by parsing, not by running: import statements at the
# top of a file or inside functions, then those of the modules found. Modules of installed packages, of Python and of
# gradlab are left out, because versions identify them. Not found: modules whose names are computed at run time, and an
# edit between the import of a module and its first hash.

_INSTALLED = {Path(path).resolve() for key, path in sysconfig.get_paths().items() if "lib" in key}
_OURS = Path(__file__).resolve().parent
_PACKAGES = ("site-packages", "dist-packages")
"""Folders of installed packages wherever they are: of the user, of Debian."""
_first_seen: dict[str, str] = {}
"""File of a loaded module -> its hash when it was first seen in this process."""


def is_own(path: Path) -> bool:
    """Whether a file is the user's: in no installed package, not of Python and not of gradlab."""
    place = path.resolve()
    return not {_OURS, *_INSTALLED}.intersection(place.parents) and not set(_PACKAGES).intersection(place.parts)


def imported_modules(source: bytes, path: Path) -> tuple[tuple[str, str], ...]:
    """Modules of the user's own that a source uses, directly or not: (name, SHA-256 of the file), by name."""
    hashes: dict[str, str] = {}
    todo = [(source, "")]
    while todo:
        for name in sorted(_imported(*todo.pop())):
            file = _file_of(name)
            if file is None or name in hashes or file == path.resolve():
                continue
            try:
                content = file.read_bytes()
            except OSError:
                continue
            hashes[name] = sha256(content).hexdigest()
            _require_unchanged(name, file, hashes[name])
            todo.append((content, name if file.name == "__init__.py" else name.rpartition(".")[0]))
    return tuple(sorted(hashes.items()))


def _require_unchanged(name: str, file: Path, digest: str) -> None:
    """A module that is loaded is not loaded again: an edit of it would change its hash, but not what is run."""
    if name in sys.modules and _first_seen.setdefault(str(file), digest) != digest:
        raise PartError(f"{file}: has changed since it was imported into this process; start Python again")


def _imported(source: bytes, package: str) -> set[str]:
    """Names of modules that a source of a package imports; of `from a import b`, both a and a.b may be one."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names |= _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom) and (module := _absolute(node, package)):
            names |= _with_parents(module) | {f"{module}.{alias.name}" for alias in node.names}
    return names


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The module that `from … import` names; empty where a relative one leads out of the package."""
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if package else []
    return ".".join([*above, *([node.module] if node.module else [])]) if above else ""


def _with_parents(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[: count + 1]) for count in range(len(parts))}


def _file_of(name: str) -> Path | None:
    """The file of a module of the user's own; None of any other. Nothing is imported.

    It is looked for on the path alone, so that the answer is the same before and after the module is loaded.
    """
    places: list[str] | None = None
    parts = name.split(".")
    spec = None
    for count in range(1, len(parts) + 1):
        try:
            spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:count]), places)
        except (ImportError, ValueError, AttributeError):
            return None
        if spec is None:
            return None
        places = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
        if places is None and count < len(parts):
            return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    path = Path(spec.origin).resolve()
    return path if is_own(path) and path.is_file() else None


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
        files, users = [], {}
        for path in map(Path, paths):
            file, parts = load_file(path)
            for key, part in parts.items():
                if key in users or key[1] in built_in_names(key[0]):
                    raise PartError(
                        f"{path}: there already is {with_article(key[0])} named {key[1]!r}; choose another name"
                    )
                users[key] = part
            files.append(file)
        return Catalog(tuple(files), users)

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


# What is imported from here by whoever writes a part.

BASES = {kind.capitalize(): home for kind, home in HOMES.items()}
"""Base class of each kind -> where its parts are; in a folder it is in `base.py`."""
COMPANIONS = {
    "Dataset": "gradlab.data.base",
    "Facts": "gradlab.data.base",
    "Tensor": "gradlab.network.layout",
    "Horizon": "gradlab.optim.schedules",
    "Reaction": "gradlab.optim.schedules",
    "LayerView": "gradlab.probes",
    "Design": "gradlab.audits.caveats.base",
    "Remark": "gradlab.audits.caveats.base",
    "Session": "gradlab.trackers.base",
}
"""What a part takes or gives, besides arrays and numbers."""


def __getattr__(name: str) -> Any:
    if name in COMPANIONS:
        return getattr(importlib.import_module(COMPANIONS[name]), name)
    if name not in BASES:
        raise AttributeError(f"module 'gradlab.parts' has no attribute {name!r}")
    home = importlib.import_module(BASES[name])
    return getattr(importlib.import_module(f"{home.__name__}.base") if hasattr(home, "__path__") else home, name)


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if not name.startswith("_")), *BASES, *COMPANIONS])

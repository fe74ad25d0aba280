"""Parts: the file is the plug-in.

An activation, skip, norm, init, loss, optimizer, schedule, task, probe, engine, caveat, executor or figure is a
*part*: a small class in a file of its own. A built-in part exists because its file is in the folder of its kind; a
user's part exists because a study names its file (`parts: [./my_skip.py]`). No second list is edited.

A part is a frozen dataclass (subclassing makes it one), so its annotated attributes are its parameters,
checked by pydantic and settable from YAML:

    class LeakyRelu(Activation):
        name = "leaky_relu"
        negative_slope: float = 0.01

    activation: leaky_relu                          # in a study
    activation: {kind: leaky_relu, negative_slope: 0.2}
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import sys
from abc import ABC
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self, dataclass_transform

from pydantic import ConfigDict, TypeAdapter, ValidationError

from gradlab import imports
from gradlab.errors import GradlabError, PartError, described, nearest, shortened

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
}
"""Kind of part -> the folder in which every file (or package) is one, but `base.py` and what its `SUPPORT` names."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass_transform(frozen_default=True)
class Part(ABC):
    """What every part is: a frozen dataclass with a kind, a name and checked parameters."""

    part: ClassVar[str]
    name: ClassVar[str]
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
    """A part whose code was not run: its name and parameters are known, what it does is not."""

    given: Any = None

    @classmethod
    def accepts(cls, parameter: object) -> bool:
        """Any: only its code knows which there are."""
        return isinstance(parameter, str)

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> Self:
        """As they are."""
        return cls(dict(parameters))

    def parameters(self) -> dict[str, Any]:
        """As they were given."""
        return dict(self.given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise PartError(
            f"the {self.part} {self.name!r} is code that came with the run, and opening a run executes nothing; "
            "--trust (in Python: open_run(…, trust=True)) runs it"
        )


@dataclass(frozen=True)
class PartFile:
    """A user's file of parts, pinned by what it contains and by what it imports of the user's own."""

    path: str
    sha256: str
    helpers: tuple[tuple[str, str], ...] = ()
    """Modules of the user's own that it imports, each with the SHA-256 of its file."""

    @property
    def identity(self) -> str:
        """One hash of all that decides what its parts do."""
        if not self.helpers:
            return self.sha256
        return sha256(repr((self.sha256, self.helpers)).encode()).hexdigest()


@dataclass(frozen=True)
class Catalog:
    """The parts a study can name: the built-in ones and those of the user's files."""

    files: tuple[PartFile, ...] = ()
    _own: Mapping[tuple[str, str], type[Part]] = field(default_factory=dict, repr=False, compare=False)
    executed: bool = True
    """Whether the files' code was run. If not, names that are not built in are taken at their word (`StandIn`)."""

    def __reduce__(self) -> Any:
        """In another process the files are loaded again, and have to be the same."""
        return (_reloaded, (self.files,)) if self.executed else (Catalog, (self.files, {}, False))

    @staticmethod
    def unread(files: Iterable[PartFile]) -> Catalog:
        """A catalog that knows of files and runs none of their code: for looking at a run that came from anywhere."""
        return Catalog(tuple(files), {}, executed=False)

    @staticmethod
    def with_files(paths: Iterable[str | Path]) -> Catalog:
        """Load the user's files (this runs their code) and add their parts to the built-in ones."""
        files, own = [], {}
        for path in map(Path, paths):
            file, found = load_file(path)
            for key, part in found.items():
                if key in own or key[1] in built_in_names(key[0]):
                    raise PartError(f"{path}: there already is {_a(key[0])} named {key[1]!r}; choose another name")
                own[key] = part
            files.append(file)
        return Catalog(tuple(files), own)

    def names(self, kind: str) -> list[str]:
        """All names of a kind, sorted."""
        return sorted([*built_in_names(kind), *(name for k, name in self._own if k == kind)])

    def get(self, kind: str, name: object) -> type[Part]:
        """The part class, or a `PartError` that lists what there is."""
        if not isinstance(name, str) or name not in self.names(kind):
            if not self.executed and isinstance(name, str) and _NAME.fullmatch(name):
                return type("StandIn", (StandIn,), {"part": kind, "name": name, "__doc__": StandIn.__doc__})
            accepted = self.names(kind)
            raise PartError(
                f"{shortened(name)} is not {_a(kind)}; accepted: {', '.join(accepted)}{nearest(name, accepted)}"
            )
        return self._own.get((kind, name)) or _built_in(kind, name)

    def make(self, kind: str, name: str, parameters: Mapping[str, Any]) -> Any:
        """The part with its parameters."""
        return self.get(kind, name).parse(parameters)


BUILT_IN = Catalog()


@contextmanager
def blaming(own: bool) -> Iterator[None]:
    """Inside, with parts of the user's own, whatever they raise (also `sys.exit`) is a `PartError`, not the end."""
    try:
        yield
    except (GradlabError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if not own:
            raise
        raise PartError(f"a part of the study's own fails: {described(error)}") from error


def _reloaded(files: tuple[PartFile, ...]) -> Catalog:
    catalog = Catalog.with_files([file.path for file in files]) if files else BUILT_IN
    if catalog.files != files:
        raise PartError(f"parts file {files[0].path}: has changed since the study was loaded; start the run again")
    return catalog


@cache
def built_in_names(kind: str) -> tuple[str, ...]:
    """The names that exist because a file exists; nothing is imported but the folder."""
    folder = importlib.import_module(FOLDERS[kind])
    support = {"base", *getattr(folder, "SUPPORT", ())}
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folder.__path__) if module.name not in support))


@cache
def _built_in(kind: str, name: str) -> type[Part]:
    module = importlib.import_module(f"{FOLDERS[kind]}.{name}")
    return _parts_of(module)[kind, name]


def _parts_of(module: ModuleType) -> dict[tuple[str, str], type[Part]]:
    """The parts that a module itself defines, by kind and name."""
    found: dict[tuple[str, str], type[Part]] = {}
    for value in vars(module).values():
        own = isinstance(value, type) and issubclass(value, Part) and value.__module__ == module.__name__
        if own and getattr(value, "name", None) is not None:
            found[getattr(value, "part", ""), value.name] = value
    return found


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
    found = _parts_of(module)
    for kind, name in found:
        if kind not in FOLDERS:
            raise PartError(f"parts file {path}: {shortened(name)} extends no base; see docs/parts.md for the bases")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise PartError(f"parts file {path}: {shortened(name)} is not a name for {_a(kind)}; use a-z, 0-9 and _")
    if not found:
        raise PartError(
            f"parts file {path}: defines no part; a part is a class with a `name` that extends one of "
            f"the bases for {', '.join(FOLDERS)} (see docs/parts.md)"
        )
    return PartFile(str(path), digest, helpers), found


def explain(error: ValidationError) -> tuple[str, object, str]:
    """Field, value and message of the first thing wrong with a part's parameters."""
    first = error.errors()[0]
    where = ".".join(str(p) for p in first["loc"])
    return where, first.get("input"), first["msg"]


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"

"""Hash a function: its own code and all user code that it uses.

A finished trial is not called again as long as this hash and its arm's settings are unchanged. The hash follows what
the code mentions. Within the function's own module it goes name by name (functions, classes, constants, containers,
partial functions, objects of the user's classes), so that other changes to a script do not matter. An imported user
module counts as a whole. Installed packages count by their versions, if at all. Files and objects that the code creates
or reads at run time are not covered. When in doubt a trial is called again: a list outside the function that the
function appends to is a different list the next time.
"""

from __future__ import annotations

import dis
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from operator import index
from pathlib import Path
from textwrap import dedent
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from pydantic import ValidationError

from gradlab.errors import InvalidInput, StudyError, shortened
from gradlab.parts import is_own
from gradlab.plans.plan import Plan, plan_code
from gradlab.spec.base import plain_json
from gradlab.spec.files import Source
from gradlab.spec.messages import study_error
from gradlab.spec.study import Code, Study
from gradlab.trials.trial import Job
from gradlab.words import join

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MAX_DEPTH = 6
"""Maximum nesting depth of containers and objects."""


def hash_code(function: Callable[..., Any]) -> Code:
    """Return the hash and the text of a function with all user code that it uses."""
    bare = _unwrap(function)
    walk = _CodeWalker(_find_file(bare if isinstance(bare, FunctionType | type) else type(bare)))
    walk.add(_get_name(function), function)
    hashed = "\n".join(f"{key}\n{piece}" for key, piece in walk.exact.items())
    text = "\n\n".join(dict.fromkeys(walk.readable.values())) + "\n"
    return Code(function=_get_name(function), sha256=sha256(hashed.encode()).hexdigest(), text=text)


def numerics() -> str:
    """Return the package versions that the bits of user code depend on, as far as they are known."""
    found = []
    for package in ("numpy", "torch"):
        with suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return ", ".join(found)


def describe_setting(value: Any, where: str) -> Any:
    """Return a setting as plain data: functions and classes by name and hash; other unnamed objects are refused."""
    if isinstance(value, float) and not isfinite(value):
        return plain_json(value)
    if isinstance(value, bool | int | float | str | type(None)):
        return value
    if isinstance(value, Mapping):
        return {str(key): describe_setting(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [describe_setting(item, f"{where}.{index}") for index, item in enumerate(value)]
    if isinstance(value, MethodType) and not isinstance(value.__self__, type):
        return f"{_get_name(value)} ({hash_code(value).sha256[:8]})"
    if isinstance(value, type | FunctionType | MethodType | partial):
        if _is_user_code(_unwrap(value)) or isinstance(value, partial):
            return f"{_get_name(value)} ({hash_code(value).sha256[:8]})"
        return f"{_unwrap(value).__module__}.{_get_name(value)}"
    if isinstance(value, BuiltinFunctionType) and value.__module__:
        return f"{value.__module__}.{value.__qualname__}"
    if (number := getattr(value, "item", None)) is not None and getattr(value, "ndim", 1) == 0:
        return describe_setting(number(), where)
    if isinstance(value, Path):
        return str(value)
    if re.fullmatch(r"[\w.]+", repr(value)):  # torch.float32, an enum member
        return repr(value)
    raise InvalidInput(
        f"{where}: {shortened(value)} cannot be recognized when the run is resumed; give numbers, strings, "
        "lists, mappings, functions or classes, and create the object inside the training function"
    )


class _CodeWalker:
    """Visits an object and everything that it uses, each once."""

    def __init__(self, home: Path | None) -> None:
        self._home = home
        self._seen: set[int] = set()
        self._alive: list[Any] = []
        """Keeps visited objects alive, so that their ids stay unique."""
        self.exact: dict[str, str] = {}
        """What is hashed."""
        self.readable: dict[str, str] = {}
        """What people read. It holds no values that are not in the source, because they may be secrets."""

    def add(self, name: str, thing: Any, depth: int = 0) -> None:
        """Add an object under the name by which it is used."""
        if isinstance(thing, _PLAIN):
            self._record(name, repr(thing))
            return
        if id(thing) in self._seen or depth > _MAX_DEPTH:
            return
        self._seen.add(id(thing))
        self._alive.append(thing)
        if isinstance(thing, partial):
            self.add(name, thing.func, depth)
            self._add_items(name, [*thing.args, *thing.keywords.items()], depth)
        elif isinstance(thing, MethodType):
            self.add(name, thing.__func__, depth)
            self.add(f"{name}.self", thing.__self__, depth + 1)
        elif isinstance(thing, Mapping):
            self._add_items(name, list(thing.items()), depth)
        elif isinstance(thing, list | tuple | set | frozenset):
            self._add_items(name, sorted(thing, key=repr) if isinstance(thing, set | frozenset) else thing, depth)
        elif isinstance(thing, ModuleType):
            self._add_module(thing)
        elif isinstance(thing, SimpleNamespace):
            self._add_items(name, sorted(vars(thing).items()), depth)
        elif (content := _get_array_bytes(thing)) is not None:
            self._record(name, sha256(content).hexdigest())
        elif hasattr(thing, "__wrapped__") and not isinstance(thing, FunctionType | type):
            self.add(name, thing.__wrapped__, depth)
        elif isinstance(thing, FunctionType | type):
            if _is_user_code(thing):
                self._add_code(thing)
        elif _is_user_code(type(thing)):
            self.add(type(thing).__qualname__, type(thing), depth)
            self._add_items(name, sorted(getattr(thing, "__dict__", {}).items()), depth)

    def _record(self, name: str, text: str) -> None:
        """Record a text; different objects with the same name are numbered."""
        key, number = name, 1
        while self.exact.get(key, text) != text:
            number += 1
            key = f"{name} ({number})"
        self.exact[key] = text

    def _add_items(self, name: str, items: Iterable[Any], depth: int) -> None:
        for place, item in enumerate(items):
            if place >= 1000:
                return
            self.add(f"{name}[{place}]", item, depth + 1)

    def _add_module(self, module: ModuleType) -> None:
        """Add a whole user module, the loaded submodules of a package, and what they import."""
        if not _is_user_code(module):
            return
        inside = [m for n, m in list(sys.modules.items()) if n.startswith(f"{module.__name__}.") and m is not None]
        for one in (module, *inside):
            file = getattr(one, "__file__", None)
            self._add_file(file)
            for name, value in list(vars(one).items()):
                source = sys.modules.get(getattr(value, "__module__", None) or "")
                found = value if isinstance(value, ModuleType) else source
                if isinstance(found, ModuleType) and found is not one and not name.startswith("__"):
                    self.add(name, found)

    def _add_file(self, file: str | None) -> None:
        """Add a whole file under its name; its location does not matter."""
        with suppress(OSError, UnicodeDecodeError):
            if file is not None:
                text = Path(file).read_text(encoding="utf8")
                self._record(f"file {Path(file).name}", text)
                self.readable.setdefault(text, f"# {Path(file).name}\n{text}")

    def _add_code(self, thing: FunctionType | type) -> None:
        """Add a function or class: by itself if it is in the function's own module, else with its whole module."""
        file = _find_file(thing)
        if file is not None and file != self._home:
            module = sys.modules.get(thing.__module__)
            self.add(thing.__module__, module) if module is not None else self._add_file(str(file))
            return
        name = thing.__qualname__
        with suppress(OSError, TypeError):  # typed interactively: there is only the compiled code
            self._record(f"text of {name}", text := dedent(inspect.getsource(thing)))
            self.readable.setdefault(text, text)
        if isinstance(thing, type):
            self._add_class(name, thing)
        else:
            self._add_function(name, thing)

    def _add_class(self, name: str, thing: type) -> None:
        self._add_items(f"{name} extends", thing.__bases__, 0)
        for key, value in list(vars(thing).items()):
            if key in ("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__"):
                continue
            if isinstance(value, property):
                self._add_items(f"{name}.{key}", [part for part in (value.fget, value.fset) if part is not None], 0)
            else:
                self.add(f"{name}.{key}", getattr(value, "__func__", value), 1)

    def _add_function(self, name: str, thing: FunctionType) -> None:
        for code in _walk_code(thing.__code__):
            self._record(f"compiled {name}.{code.co_name}", _describe_bytecode(code))
            for used in code.co_names:
                if used in thing.__globals__:
                    self.add(used, thing.__globals__[used])
            for imported in _find_imports(code):
                module = sys.modules.get(imported)
                self.add(imported, module) if module is not None else self._add_file(_find_module_file(imported))
        for used, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True):
            with suppress(ValueError):  # an empty cell
                self.add(f"{name}.{used}", cell.cell_contents)
        self._add_items(f"{name} defaults", thing.__defaults__ or (), 0)
        self._add_items(f"{name} defaults by name", list((thing.__kwdefaults__ or {}).items()), 0)


def _get_array_bytes(thing: Any) -> bytes | None:
    """Return the bytes of an array or a tensor; None for anything else."""
    if isinstance(thing, type) or not hasattr(thing, "dtype") or not hasattr(thing, "shape"):
        return None
    try:
        array = thing if hasattr(thing, "tobytes") else thing.detach().cpu().numpy()
        return f"{array.dtype} {array.shape}".encode() + bytes(array.tobytes())
    except (AttributeError, TypeError, RuntimeError):
        return None


def _get_name(function: Any) -> str:
    bare = _unwrap(function)
    name = str(getattr(bare, "__qualname__", type(bare).__name__)).replace("<locals>.", "")
    given = [shortened(argument, 40) for argument in getattr(function, "args", ())]
    given += [f"{key}={shortened(value, 40)}" for key, value in getattr(function, "keywords", {}).items()]
    return f"{name}({', '.join(given)})" if isinstance(function, partial) else name


def _unwrap(function: Any) -> Any:
    """Return the function without bound arguments."""
    if isinstance(function, partial):
        return _unwrap(function.func)
    return function.__func__ if isinstance(function, MethodType) else function


def _is_user_code(thing: Any) -> bool:
    """Whether a function, class or module is user code: in no installed package and not part of Gradlab."""
    if not isinstance(thing, FunctionType | type | ModuleType):
        return _is_user_code(type(thing))
    file = _find_file(thing)
    if file is not None:
        return is_own(file)
    name = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
    if isinstance(thing, FunctionType):  # typed in a notebook or at a prompt
        return True
    return name == "__main__" or name not in sys.modules


def _find_file(thing: Any) -> Path | None:
    """Return the file that defines an object; None for interactively typed or built-in objects."""
    if isinstance(thing, FunctionType):
        file: str | None = thing.__code__.co_filename
    elif isinstance(thing, type):
        module = sys.modules.get(thing.__module__)
        file = getattr(module, "__file__", None)
    else:
        file = getattr(thing, "__file__", None)
    if file is None or file.startswith("<"):
        return None
    path = Path(file).resolve()
    return path if path.is_file() else None


def _find_module_file(name: str) -> str | None:
    """Return the file of a user module that is not loaded yet; None for other modules."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    file = None if spec is None else spec.origin
    if file is None or not file.endswith(".py"):
        return None
    return file if is_own(Path(file)) else None


def _describe_bytecode(code: CodeType) -> str:
    consts = [
        sorted(const, key=repr) if isinstance(const, frozenset) else const
        for const in code.co_consts
        if not isinstance(const, CodeType)
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {consts!r}"


def _walk_code(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of everything defined inside it."""
    todo = [code]
    while todo:
        one = todo.pop(0)
        yield one
        todo += [const for const in one.co_consts if isinstance(const, CodeType)]


def _find_imports(code: CodeType) -> Iterator[str]:
    """Yield the modules that a function imports in its body."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            yield str(instruction.argval)


# Plan a comparison of a training function: list every call and check it before the first one is made.

Train = Callable[..., Any]
Arms = Mapping[str, Any] | Sequence[str]
Arguments = Mapping[str, tuple[tuple[Any, ...], dict[str, Any]]]
"""Arm -> positional and keyword arguments of its calls."""


def plan_comparison(
    train: Train, arms: Arms, seeds: int | Sequence[int] | Mapping[str, Any] = 5, **options: Any
) -> Plan:
    """Plan every trial of a comparison without calling the function; `InvalidInput` if a call would not be valid."""
    if not callable(train):
        raise InvalidInput(f"compare: the first argument must be a training function, not {shortened(train)}")
    if not isinstance(arms, Mapping | list | tuple) or not all(isinstance(arm, str) for arm in arms):
        raise InvalidInput(
            "compare: arms must be names with settings, {'plain': {'skip': False}, …}, or a list of names"
        )
    if len(set(arms)) < len(arms):
        raise InvalidInput("compare: an arm is listed twice")
    chosen = split_arguments(arms)
    for name, (args, kwargs) in chosen.items():
        _check_call(train, name, args, kwargs)
    settings = {
        name: describe_setting(kwargs, f"arms.{name}")
        if not args
        else {"arm": describe_setting(args[0], f"arms.{name}")}
        for name, (args, kwargs) in chosen.items()
    }
    return plan_arms(settings, hash_code(train), seeds, options)


def plan_arms(
    settings: Mapping[str, Mapping[str, Any]],
    code: Code,
    seeds: int | Sequence[int] | Mapping[str, Any],
    options: Mapping[str, Any],
    jobs: Mapping[str, Job] | None = None,
) -> Plan:
    """Plan every trial of arms with these settings; `options` are fields of the study, and `metric` its headline."""
    metric, question, claims = options.get("metric"), options.get("question"), options.get("claims") or ()
    tree = {
        "name": options.get("name") or "comparison",
        "question": question or _ask(list(settings)),
        "factor": tuple(_find_differing(list(settings.values()))),
        "arms": settings,
        "seeds": _parse_seeds(seeds),
        "headline": {"metric": metric} if isinstance(metric, str) else metric,
        "claims": (claims,) if isinstance(claims, Mapping) else claims,
        "code": code.model_dump(exclude_unset=True),
        **{name: options[name] for name in ("notes", "labels", "answers", "matters") if options.get(name)},
    }
    source = Source("compare", {key: value for key, value in tree.items() if value is not None})
    try:
        return plan_code(Study.model_validate(source.tree), numerics(), jobs)
    except ValidationError as error:
        raise source.place(study_error(error, source.tree)) from None
    except StudyError as error:
        raise source.place(error) from None


def _ask(arms: Sequence[str]) -> str:
    return f"How do {join(arms)} compare?" if len(arms) != 1 else f"How does {arms[0]} do?"


def split_arguments(arms: Arms) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """Map each arm to its positional and keyword arguments: a mapping gives keywords, anything else is positional."""
    values = arms if isinstance(arms, Mapping) else {name: name for name in arms}
    return {
        str(name): ((), {str(key): item for key, item in value.items()})
        if isinstance(value, Mapping)
        else ((value,), {})
        for name, value in values.items()
    }


def _check_call(train: Train, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    words = ", ".join([*(["ARM"] if args else []), *(f"{key}={value!r}" for key, value in kwargs.items()), "seed=0"])
    try:
        inspect.signature(train).bind(*args, **kwargs, seed=0)
    except TypeError as error:
        function = getattr(train, "__name__", "the function")
        raise InvalidInput(
            f"compare: arm {name!r}: {function} would be called as {function}({words}): {error}"
        ) from None
    except ValueError:  # Python cannot determine the signature; the call itself will check it
        return


def _parse_seeds(seeds: Any) -> Any:
    """Convert a count or a list of seeds to plain integers; the study rejects anything else."""
    try:
        return index(seeds)
    except TypeError:
        listed = hasattr(seeds, "__iter__") and not isinstance(seeds, str | Mapping)
        return tuple(_parse_seeds(seed) for seed in seeds) if listed else seeds


def _find_differing(trees: Sequence[Mapping[str, Any]]) -> list[str]:
    paths = dict.fromkeys(key for tree in trees for key in tree)
    return [path for path in paths if any(tree.get(path) != trees[0].get(path) for tree in trees)]

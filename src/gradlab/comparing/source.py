"""What a function is: its own code and that of everything of the user's that it uses, as one hash.

A finished trial is not called again as long as this hash and its arm's settings stay. Followed is what the code
mentions: in the function's own module name by name (functions, classes, constants, containers, partial functions,
objects of the user's own classes), so that a change elsewhere in a script does not matter; a module of the user's that
is imported, anywhere on the way, counts as a whole. Installed packages count by their versions, if at all. Not seen are
files and objects that the code makes or reads while it runs. Where in doubt, a trial is called again: a list outside
the function that it appends to is another list the next time.
"""

from __future__ import annotations

import dis
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from textwrap import dedent
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from gradlab.errors import InvalidInput, shortened
from gradlab.parts.imports import is_own
from gradlab.spec.canonical import plain_json
from gradlab.spec.code import Code

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_DEEPEST = 6
"""How far containers and objects are looked into."""


def code_of(function: Callable[..., Any]) -> Code:
    """The function with all of the user's own that it uses."""
    bare = _bare(function)
    walk = _Walk(_file_of(bare if isinstance(bare, FunctionType | type) else type(bare)))
    walk.add(_name(function), function)
    told = "\n".join(f"{key}\n{piece}" for key, piece in walk.exact.items())
    text = "\n\n".join(dict.fromkeys(walk.readable.values())) + "\n"
    return Code(function=_name(function), sha256=sha256(told.encode()).hexdigest(), text=text)


def numerics() -> str:
    """What the bits of somebody's own code depend on besides it, as far as the lab can know."""
    found = []
    for package in ("numpy", "torch"):
        with suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return ", ".join(found)


def described(value: Any, where: str) -> Any:
    """A setting as plain data: functions and classes by name and hash; what has no lasting name is refused."""
    if isinstance(value, float) and not isfinite(value):
        return plain_json(value)
    if isinstance(value, bool | int | float | str | type(None)):
        return value
    if isinstance(value, Mapping):
        return {str(key): described(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [described(item, f"{where}.{index}") for index, item in enumerate(value)]
    if isinstance(value, MethodType) and not isinstance(value.__self__, type):
        return f"{_name(value)} ({code_of(value).sha256[:8]})"
    if isinstance(value, type | FunctionType | MethodType | partial):
        if _is_own(_bare(value)) or isinstance(value, partial):
            return f"{_name(value)} ({code_of(value).sha256[:8]})"
        return f"{_bare(value).__module__}.{_name(value)}"
    if isinstance(value, BuiltinFunctionType) and value.__module__:
        return f"{value.__module__}.{value.__qualname__}"
    if (number := getattr(value, "item", None)) is not None and getattr(value, "ndim", 1) == 0:
        return described(number(), where)
    if isinstance(value, Path):
        return str(value)
    if re.fullmatch(r"[\w.]+", repr(value)):  # torch.float32, a member of an enumeration
        return repr(value)
    raise InvalidInput(
        f"{where}: {shortened(value)} cannot be told apart from others when the run is continued; give numbers, "
        "words, lists, mappings, functions or classes, and make the object inside the training function"
    )


class _Walk:
    """Goes from one thing to all that it uses, each once."""

    def __init__(self, home: Path | None) -> None:
        self._home = home
        self._seen: set[int] = set()
        self._kept: list[Any] = []
        """What was seen stays alive, so that its id stays its own."""
        self.exact: dict[str, str] = {}
        """What is hashed."""
        self.readable: dict[str, str] = {}
        """What people read: no values that do not stand in the source, they may be secrets."""

    def add(self, name: str, thing: Any, depth: int = 0) -> None:
        """A thing under the name that it is used by."""
        if isinstance(thing, _PLAIN):
            self._note(name, repr(thing))
            return
        if id(thing) in self._seen or depth > _DEEPEST:
            return
        self._seen.add(id(thing))
        self._kept.append(thing)
        if isinstance(thing, partial):
            self.add(name, thing.func, depth)
            self._container(name, [*thing.args, *thing.keywords.items()], depth)
        elif isinstance(thing, MethodType):
            self.add(name, thing.__func__, depth)
            self.add(f"{name}.self", thing.__self__, depth + 1)
        elif isinstance(thing, Mapping):
            self._container(name, list(thing.items()), depth)
        elif isinstance(thing, list | tuple | set | frozenset):
            self._container(name, sorted(thing, key=repr) if isinstance(thing, set | frozenset) else thing, depth)
        elif isinstance(thing, ModuleType):
            self._module(thing)
        elif isinstance(thing, SimpleNamespace):
            self._container(name, sorted(vars(thing).items()), depth)
        elif (bits := _bits(thing)) is not None:
            self._note(name, sha256(bits).hexdigest())
        elif hasattr(thing, "__wrapped__") and not isinstance(thing, FunctionType | type):
            self.add(name, thing.__wrapped__, depth)
        elif isinstance(thing, FunctionType | type):
            if _is_own(thing):
                self._code(thing)
        elif _is_own(type(thing)):
            self.add(type(thing).__qualname__, type(thing), depth)
            self._container(name, sorted(getattr(thing, "__dict__", {}).items()), depth)

    def _note(self, name: str, text: str) -> None:
        """Equal names of different things are kept apart by their number."""
        key, number = name, 1
        while self.exact.get(key, text) != text:
            number += 1
            key = f"{name} ({number})"
        self.exact[key] = text

    def _container(self, name: str, items: Iterable[Any], depth: int) -> None:
        for index, item in enumerate(items):
            if index >= 1000:
                return
            self.add(f"{name}[{index}]", item, depth + 1)

    def _module(self, module: ModuleType) -> None:
        """A module of the user's as a whole, the loaded parts of a package, and what they import."""
        if not _is_own(module):
            return
        inside = [m for n, m in list(sys.modules.items()) if n.startswith(f"{module.__name__}.") and m is not None]
        for one in (module, *inside):
            file = getattr(one, "__file__", None)
            self._file(file)
            for name, value in list(vars(one).items()):
                source = sys.modules.get(getattr(value, "__module__", None) or "")
                found = value if isinstance(value, ModuleType) else source
                if isinstance(found, ModuleType) and found is not one and not name.startswith("__"):
                    self.add(name, found)

    def _file(self, file: str | None) -> None:
        """A whole file, by its name: where it lies does not matter."""
        with suppress(OSError, UnicodeDecodeError):
            if file is not None:
                text = Path(file).read_text(encoding="utf8")
                self._note(f"file {Path(file).name}", text)
                self.readable.setdefault(text, f"# {Path(file).name}\n{text}")

    def _code(self, thing: FunctionType | type) -> None:
        """A function or class: of the function's own module by itself, of another with the whole module."""
        file = _file_of(thing)
        if file is not None and file != self._home:
            module = sys.modules.get(thing.__module__)
            self.add(thing.__module__, module) if module is not None else self._file(str(file))
            return
        name = thing.__qualname__
        with suppress(OSError, TypeError):  # typed at a prompt: there is only what it was compiled to
            self._note(f"text of {name}", text := dedent(inspect.getsource(thing)))
            self.readable.setdefault(text, text)
        if isinstance(thing, type):
            self._class(name, thing)
        else:
            self._function(name, thing)

    def _class(self, name: str, thing: type) -> None:
        self._container(f"{name} extends", thing.__bases__, 0)
        for key, value in list(vars(thing).items()):
            if key in ("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__"):
                continue
            if isinstance(value, property):
                self._container(f"{name}.{key}", [part for part in (value.fget, value.fset) if part is not None], 0)
            else:
                self.add(f"{name}.{key}", getattr(value, "__func__", value), 1)

    def _function(self, name: str, thing: FunctionType) -> None:
        for code in _codes(thing.__code__):
            self._note(f"compiled {name}.{code.co_name}", _compiled(code))
            for used in code.co_names:
                if used in thing.__globals__:
                    self.add(used, thing.__globals__[used])
            for imported in _imported(code):
                module = sys.modules.get(imported)
                self.add(imported, module) if module is not None else self._file(_file_of_module(imported))
        for used, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True):
            with suppress(ValueError):  # not filled yet
                self.add(f"{name}.{used}", cell.cell_contents)
        self._container(f"{name} defaults", thing.__defaults__ or (), 0)
        self._container(f"{name} defaults by name", list((thing.__kwdefaults__ or {}).items()), 0)


def _bits(thing: Any) -> bytes | None:
    """Of an array or a tensor; None of anything else."""
    if isinstance(thing, type) or not hasattr(thing, "dtype") or not hasattr(thing, "shape"):
        return None
    try:
        array = thing if hasattr(thing, "tobytes") else thing.detach().cpu().numpy()
        return f"{array.dtype} {array.shape}".encode() + bytes(array.tobytes())
    except (AttributeError, TypeError, RuntimeError):
        return None


def _name(function: Any) -> str:
    bare = _bare(function)
    name = str(getattr(bare, "__qualname__", type(bare).__name__)).replace("<locals>.", "")
    given = [shortened(argument, 40) for argument in getattr(function, "args", ())]
    given += [f"{key}={shortened(value, 40)}" for key, value in getattr(function, "keywords", {}).items()]
    return f"{name}({', '.join(given)})" if isinstance(function, partial) else name


def _bare(function: Any) -> Any:
    """Without the arguments that are already bound to it."""
    if isinstance(function, partial):
        return _bare(function.func)
    return function.__func__ if isinstance(function, MethodType) else function


def _is_own(thing: Any) -> bool:
    """Whether it is code of the user's: a function, class or module that is in no installed package and not ours."""
    if not isinstance(thing, FunctionType | type | ModuleType):
        return _is_own(type(thing))
    file = _file_of(thing)
    if file is not None:
        return is_own(file)
    name = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
    if isinstance(thing, FunctionType):  # a notebook or a prompt
        return True
    return name == "__main__" or name not in sys.modules


def _file_of(thing: Any) -> Path | None:
    """The file in which something was written; None of what was typed, or is built in."""
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


def _file_of_module(name: str) -> str | None:
    """The file of a module that is not loaded yet, if it is the user's."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    file = None if spec is None else spec.origin
    if file is None or not file.endswith(".py"):
        return None
    return file if is_own(Path(file)) else None


def _compiled(code: CodeType) -> str:
    consts = [
        sorted(const, key=repr) if isinstance(const, frozenset) else const
        for const in code.co_consts
        if not isinstance(const, CodeType)
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {consts!r}"


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of all that is defined inside it."""
    todo = [code]
    while todo:
        one = todo.pop(0)
        yield one
        todo += [const for const in one.co_consts if isinstance(const, CodeType)]


def _imported(code: CodeType) -> Iterator[str]:
    """Modules that a function imports by itself."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            yield str(instruction.argval)

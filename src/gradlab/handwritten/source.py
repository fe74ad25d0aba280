"""What a function is: its own text and that of everything of the user's that it uses, as one hash.

A finished trial is not run again as long as this hash and its arm's settings stay. Followed are the names that the code
mentions: functions, classes and modules of the user's (whatever is not an installed package), and plain constants.
Not seen are files and objects that the code reads while it runs.
"""

from __future__ import annotations

import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import dedent
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from gradlab.errors import InvalidInput, shortened
from gradlab.spec.code import Code

_PLAIN = (bool, int, float, str, bytes, type(None))
_INSTALLED = {Path(path).resolve() for key, path in sysconfig.get_paths().items() if "lib" in key}
_OURS = Path(__file__).resolve().parents[1]


def code_of(function: Callable[..., Any]) -> Code:
    """The function with all of the user's own that it uses."""
    pieces = _pieces(function)
    text = "\n\n".join(f"# {name}\n{piece}" for name, piece in pieces.items()) + "\n"
    return Code(function=_name(function), sha256=sha256(text.encode()).hexdigest(), text=text)


def described(value: Any, where: str) -> Any:
    """A setting as plain data: functions and classes by name and hash; what has no lasting name is refused."""
    if isinstance(value, _PLAIN) and not isinstance(value, bytes):
        return value
    if isinstance(value, Mapping):
        return {str(key): described(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [described(item, f"{where}.{index}") for index, item in enumerate(value)]
    if callable(value) and (isinstance(value, type | FunctionType | MethodType | partial)):
        return f"{_name(value)} ({code_of(value).sha256[:8]})" if _is_own(_bare(value)) else _name(value)
    raise InvalidInput(
        f"{where}: {shortened(value)} cannot be told apart from others when the run is continued; give numbers, "
        "words, lists, mappings, functions or classes, and make the object inside the training function"
    )


def _name(function: Any) -> str:
    bare = _bare(function)
    name = str(getattr(bare, "__qualname__", type(bare).__name__)).replace("<locals>.", "")
    given = [repr(argument) for argument in getattr(function, "args", ())]
    given += [f"{key}={value!r}" for key, value in getattr(function, "keywords", {}).items()]
    return f"{name}({', '.join(given)})" if isinstance(function, partial) else name


def _bare(function: Any) -> Any:
    """Without the arguments that are already bound to it."""
    if isinstance(function, partial):
        return _bare(function.func)
    return function.__func__ if isinstance(function, MethodType) else function


def _pieces(function: Any) -> dict[str, str]:
    """Name -> text of everything that is reached, in the order in which it is found."""
    found: dict[str, str] = {}
    todo = [(_name(function), _bare(function))]
    if isinstance(function, partial):
        todo += [(f"argument {key}", value) for key, value in enumerate([*function.args, *function.keywords.items()])]
    seen: set[int] = set()
    while todo:
        name, thing = todo.pop(0)
        thing = _bare(thing)
        if isinstance(thing, _PLAIN) or (isinstance(thing, tuple | list | dict) and _all_plain(thing)):
            found[name] = f"{name} = {thing!r}"
        elif id(thing) not in seen and _is_own(thing):
            seen.add(id(thing))
            found[f"{name}#{len(found)}" if name in found else name] = _text(thing)
            todo += _used(thing)
    return found


def _all_plain(value: Any) -> bool:
    items = [*value.keys(), *value.values()] if isinstance(value, dict) else value
    return len(items) <= 1000 and all(isinstance(item, _PLAIN) for item in items)


def _is_own(thing: Any) -> bool:
    """Whether it is code of the user's: a function, class or module that is in no installed package and not ours."""
    if not isinstance(thing, FunctionType | type | ModuleType):
        return callable(thing) and not inspect.isbuiltin(thing) and _is_own(type(thing))
    module = thing if isinstance(thing, ModuleType) else sys.modules.get(thing.__module__)
    if module is None or module.__name__ == "builtins":
        return module is None and isinstance(thing, FunctionType | type)
    file = getattr(module, "__file__", None)
    if file is None:  # a notebook or a prompt, or something built in
        return module.__name__ == "__main__"
    return not {_OURS, *_INSTALLED}.intersection(Path(file).resolve().parents)


def _text(thing: Any) -> str:
    try:
        return dedent(inspect.getsource(thing if isinstance(thing, FunctionType | type | ModuleType) else type(thing)))
    except (OSError, TypeError):  # typed at a prompt: what it was compiled to
        return "\n".join(_compiled(code) for code in _codes(thing))


def _compiled(code: CodeType) -> str:
    consts = [const for const in code.co_consts if not isinstance(const, CodeType)]
    return f"{code.co_name}: {code.co_code.hex()} {code.co_names} {consts!r}"


def _used(thing: Any) -> Iterator[tuple[str, Any]]:
    """What the code of a function, of a class and its bases, or of a module mentions."""
    if isinstance(thing, ModuleType):
        return
    if isinstance(thing, type):
        yield from ((base.__name__, base) for base in thing.__bases__)
        members = [getattr(member, "__func__", member) for member in vars(thing).values()]
        members += [part for member in members if isinstance(member, property) for part in (member.fget, member.fset)]
        for member in members:
            if isinstance(member, FunctionType):
                yield from _used(member)
        return
    if not isinstance(thing, FunctionType):
        yield type(thing).__name__, type(thing)
        return
    for code in _codes(thing):
        for name in code.co_names:
            if name in thing.__globals__:
                yield name, thing.__globals__[name]
    for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield from ((f"default of {thing.__name__}", value) for value in thing.__defaults__ or ())
    yield from ((f"default {key} of {thing.__name__}", v) for key, v in (thing.__kwdefaults__ or {}).items())


def _codes(thing: Any) -> Iterator[CodeType]:
    """The code of a function and of all that is defined inside it."""
    if isinstance(thing, type):
        for member in vars(thing).values():
            if isinstance(member, FunctionType):
                yield from _codes(member)
        return
    todo = [thing.__code__] if isinstance(thing, FunctionType) else []
    while todo:
        code = todo.pop()
        yield code
        todo += [const for const in code.co_consts if isinstance(const, CodeType)]


def numerics() -> str:
    """What the bits of somebody's own code depend on besides it, as far as the lab can know."""
    found = []
    for package in ("numpy", "torch"):
        with suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return ", ".join(found)

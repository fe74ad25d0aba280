"""Which of the user's own modules a source file imports, directly or through others, and the hashes of their files.

Imports are found by parsing, not by running: import statements at the top of a file or inside functions, then those of
the modules found. Modules of installed packages, of Python and of gradlab are left out, because versions identify them.
Not found: modules whose names are computed at run time, and an edit between the import of a module and its first hash.
"""

from __future__ import annotations

import ast
import importlib.machinery
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path

from gradlab.errors import PartError

_INSTALLED = {Path(path).resolve() for key, path in sysconfig.get_paths().items() if "lib" in key}
_OURS = Path(__file__).resolve().parents[1]
_PACKAGES = ("site-packages", "dist-packages")
"""Folders of installed packages wherever they are: of the user, of Debian."""
_first_seen: dict[str, str] = {}
"""File of a loaded module -> its hash when it was first seen in this process."""


def is_own(path: Path) -> bool:
    """Whether a file is the user's: in no installed package, not of Python and not of gradlab."""
    place = path.resolve()
    return not {_OURS, *_INSTALLED}.intersection(place.parents) and not set(_PACKAGES).intersection(place.parts)


def of_source(source: bytes, path: Path) -> tuple[tuple[str, str], ...]:
    """Modules of the user's own that a source uses, directly or not: (name, SHA-256 of the file), by name."""
    found: dict[str, str] = {}
    todo = [(source, "")]
    while todo:
        for name in sorted(_imported(*todo.pop())):
            file = _file_of(name)
            if file is None or name in found or file == path.resolve():
                continue
            try:
                content = file.read_bytes()
            except OSError:
                continue
            found[name] = sha256(content).hexdigest()
            _require_unchanged(name, file, found[name])
            todo.append((content, name if file.name == "__init__.py" else name.rpartition(".")[0]))
    return tuple(sorted(found.items()))


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

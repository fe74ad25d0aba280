"""Which modules of the user's own a piece of source imports: what it does depends on them as much as on itself.

Found by reading, not by running: the import statements of the file, at its top or inside functions, and those of the
modules found, and so on. Modules of installed packages, of Python and of gradlab do not count: versions say what they
are. Not seen are modules whose names are made while the code runs.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path

from gradlab.errors import PartError

_INSTALLED = {Path(path).resolve() for key, path in sysconfig.get_paths().items() if "lib" in key}
_OURS = Path(__file__).resolve().parent
_first_seen: dict[str, str] = {}
"""File of a loaded module -> its hash when it was first seen in this process."""


def is_own(path: Path) -> bool:
    """Whether a file is the user's: in no installed package, not of Python and not of gradlab."""
    return not {_OURS, *_INSTALLED}.intersection(path.resolve().parents)


def of_source(source: bytes, path: Path) -> tuple[tuple[str, str], ...]:
    """Modules of the user's own that a source uses, directly or not: (name, SHA-256 of the file), by name."""
    found: dict[str, str] = {}
    todo = [source]
    while todo:
        for name in sorted(_imported(todo.pop())):
            file = _file_of(name)
            if file is None or name in found or file == path.resolve():
                continue
            try:
                content = file.read_bytes()
            except OSError:
                continue
            found[name] = sha256(content).hexdigest()
            _require_unchanged(name, file, found[name])
            todo.append(content)
    return tuple(sorted(found.items()))


def _require_unchanged(name: str, file: Path, digest: str) -> None:
    """A module that is loaded is not loaded again: an edit of it would change its hash, but not what is run."""
    if name in sys.modules and _first_seen.setdefault(str(file), digest) != digest:
        raise PartError(f"{file}: has changed since it was imported into this process; start Python again")


def _imported(source: bytes) -> set[str]:
    """Names of modules in the import statements of a source; of `from a import b` both a and a.b may be one."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names |= _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= _with_parents(node.module) | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _with_parents(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[: count + 1]) for count in range(len(parts))}


def _file_of(name: str) -> Path | None:
    """The file of a module of the user's own; None of any other. Nothing is imported."""
    module = sys.modules.get(name)
    if module is not None:
        origin = getattr(module, "__file__", None)
    else:
        above = name.rpartition(".")[0]
        try:
            if not above:
                spec = importlib.util.find_spec(name)
            else:
                folder = _file_of(above)
                if folder is None or folder.name != "__init__.py":
                    return None
                spec = importlib.machinery.PathFinder.find_spec(name, [str(folder.parent)])
        except (ImportError, ValueError, AttributeError):
            return None
        origin = None if spec is None else spec.origin
    if origin is None or not str(origin).endswith(".py"):
        return None
    path = Path(origin).resolve()
    return path if is_own(path) and path.is_file() else None

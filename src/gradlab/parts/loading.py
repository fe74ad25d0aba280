"""Parts of the user's own: a file is run, pinned by its content, and searched for parts."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from gradlab.errors import PartError, described, shortened
from gradlab.parts import imports
from gradlab.parts.folders import FOLDERS
from gradlab.parts.part import Part, parts_of, with_article

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
        if kind not in FOLDERS:
            raise PartError(f"parts file {path}: {shortened(name)} extends no base; see docs/parts.md for the bases")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise PartError(
                f"parts file {path}: {shortened(name)} is not a name for {with_article(kind)}; use a-z, 0-9 and _"
            )
    if not found:
        raise PartError(
            f"parts file {path}: defines no part; a part is a class with a `name` that extends one of "
            f"the bases for {', '.join(FOLDERS)} (see docs/parts.md)"
        )
    return PartFile(str(path), digest, helpers), found

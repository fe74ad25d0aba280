"""Load an object of the user's code, named on the command line as MODULE:NAME. The module's code is run."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from gradlab.errors import InvalidInput, described, nearest

FORM = "write it as module:name, such as train.py:make or mypackage.models:make"


def is_target(text: str) -> bool:
    """Whether a word names an object in a module, and not a study or a file."""
    module, colon, name = text.rpartition(":")
    return bool(colon and module) and name.isidentifier() and not Path(text).exists()


def loaded(target: str) -> Any:
    """Return the object that MODULE:NAME names; `InvalidInput` if there is none."""
    module_name, colon, name = target.rpartition(":")
    if not colon or not module_name or not name:
        raise InvalidInput(f"{target!r}: {FORM}")
    module = load_module(target)
    if not hasattr(module, name):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise InvalidInput(f"{module_name} has no {name!r}{nearest(name, public)}")
    return getattr(module, name)


def load_module(target: str) -> ModuleType:
    """Return the module of MODULE:NAME: a Python file, or an importable module. Its code is run once."""
    return _load_module(target.rpartition(":")[0])


@cache
def _load_module(name: str) -> ModuleType:
    try:
        if not name.endswith(".py"):
            if "" not in sys.path:
                sys.path.insert(0, "")
            return importlib.import_module(name)
        path = Path(name).resolve()
        if str(path.parent) not in sys.path:  # a script can import its neighbors, as under python itself
            sys.path.insert(0, str(path.parent))
        # under a unique name: a script may have the name of a module that is already loaded
        unique = f"gradlab_user_{sha256(str(path).encode()).hexdigest()[:8]}_{path.stem}"
        spec = importlib.util.spec_from_file_location(unique, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[unique] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except FileNotFoundError:
        raise InvalidInput(f"{name}: there is no such file") from None
    except (Exception, SystemExit) as error:  # a script may end with sys.exit, and is then unusable
        raise InvalidInput(f"{name}: {described(error)}") from error

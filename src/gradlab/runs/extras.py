"""Packages that only some executors and trackers need: imported when asked for, or named with their command."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gradlab.errors import InvalidInput


def require_extra(module: str, extra: str, purpose: str) -> Any:
    """Return the imported module, or raise an error that names the command that installs it."""
    if find_spec(module) is None:
        raise InvalidInput(
            f"{purpose} needs the package {module!r}, which is not installed; install it with: "
            f"pip install 'gradlab[{extra}]'"
        )
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidInput(
            f"{purpose} needs the package {module!r}, which is installed but cannot be imported ({error}); reinstall "
            f"it with: pip install --force-reinstall 'gradlab[{extra}]'"
        ) from None

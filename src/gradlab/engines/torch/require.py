"""Import torch, or raise an error that names the extra."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from gradlab.errors import InvalidInput

MISSING = "PyTorch is not installed; install the extra: pip install 'gradlab[torch]'"


def has_torch() -> bool:
    """Whether torch can be imported, without importing it."""
    return find_spec("torch") is not None


def require_torch() -> Any:
    """Return the torch module, or raise an error that says what to install."""
    if not has_torch():
        raise InvalidInput(MISSING)
    import torch

    return torch

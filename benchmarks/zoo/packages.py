"""Import packages that ask for torchvision, of which there is no build for every machine.

timm, fastai and others import its image transforms and detection operators when they are imported, and use none of them
in the networks of the zoo. Where torchvision is missing, an empty stand-in takes its place.
"""

from __future__ import annotations

import importlib.machinery
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _AnyName(type):
    """Classes of the stand-in have every attribute: `InterpolationMode.NEAREST`."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class _Anything(metaclass=_AnyName):
    """A class, a function, a constant: whatever is asked of the stand-in."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Anything,), {})


def allow_missing_torchvision() -> None:
    """Put a stand-in where torchvision would be, if it is not installed."""
    if "torchvision" in sys.modules or find_spec("torchvision") is not None:
        return
    for name in ("", ".transforms", ".transforms.functional", ".transforms.v2", ".ops", ".ops.misc", ".datasets",
                 ".models", ".models.feature_extraction", ".datasets.folder", ".io", ".utils",
                 ".transforms.transforms"):  # fmt: skip
        module = _StandIn(f"torchvision{name}")
        module.__path__ = []
        module.__version__ = "0.0"
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None, is_package=True)
        sys.modules[module.__name__] = module
        above, _, own = module.__name__.rpartition(".")
        if above:
            setattr(sys.modules[above], own, module)

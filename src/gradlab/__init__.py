"""Gradlab runs controlled experiments on why deep networks train, or don't.

>>> import gradlab
>>> result = gradlab.run("identity")        # a built-in study, a YAML file, or a dict
>>> result.answer
>>> result.table(); result.layers(); result.figure("training_loss")

Nothing heavy is imported until it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlab.api import audit as audit
    from gradlab.api import compare as compare
    from gradlab.api import probe as probe
    from gradlab.api import watch as watch
    from gradlab.errors import GradlabError as GradlabError
    from gradlab.lab import dry_run as dry_run
    from gradlab.lab import list_studies as list_studies
    from gradlab.lab import load as load
    from gradlab.lab import open_run as open_run
    from gradlab.lab import run as run
    from gradlab.lab import status as status
    from gradlab.result import Result as Result
    from gradlab.spec.study import Study as Study
    from gradlab.writeups import reproduce as reproduce

__version__ = "0.1.0"

_ROOMS = ("torch",)
"""Rooms that are used by their name: `gradlab.torch.to_module`."""
_HOMES = {
    "GradlabError": "gradlab.errors",
    "Result": "gradlab.result",
    "Study": "gradlab.spec.study",
    "audit": "gradlab.api",
    "compare": "gradlab.api",
    "dry_run": "gradlab.lab",
    "list_studies": "gradlab.lab",
    "load": "gradlab.lab",
    "open_run": "gradlab.lab",
    "probe": "gradlab.api",
    "reproduce": "gradlab.writeups",
    "run": "gradlab.lab",
    "status": "gradlab.lab",
    "watch": "gradlab.api",
}

__all__ = [
    "GradlabError",
    "Result",
    "Study",
    "__version__",
    "audit",
    "compare",
    "dry_run",
    "list_studies",
    "load",
    "open_run",
    "probe",
    "reproduce",
    "run",
    "status",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"gradlab.{name}")
    raise AttributeError(f"module 'gradlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

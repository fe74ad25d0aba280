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
    from gradlab.api import command as command
    from gradlab.api import compare as compare
    from gradlab.api import doctor as doctor
    from gradlab.api import export as export
    from gradlab.api import judge as judge
    from gradlab.api import lab as lab
    from gradlab.api import list_runs as list_runs
    from gradlab.api import list_studies as list_studies
    from gradlab.api import load as load
    from gradlab.api import log as log
    from gradlab.api import open_run as open_run
    from gradlab.api import plan as plan
    from gradlab.api import predict as predict
    from gradlab.api import probe as probe
    from gradlab.api import reproduce as reproduce
    from gradlab.api import run as run
    from gradlab.api import status as status
    from gradlab.api import until_settled as until_settled
    from gradlab.api import verify as verify
    from gradlab.api import watch as watch
    from gradlab.errors import GradlabError as GradlabError
    from gradlab.report.result import Result as Result
    from gradlab.spec.study import Study as Study

__version__ = "0.1.0"

_ROOMS = ("torch", "lightning", "transformers", "fastai", "skorch")
"""Rooms that are used by their name: `gradlab.torch.to_module`, `gradlab.lightning.Watch`."""
_HOMES = {
    "GradlabError": "gradlab.errors",
    "Result": "gradlab.report.result",
    "Study": "gradlab.spec.study",
    "audit": "gradlab.api",
    "command": "gradlab.api",
    "compare": "gradlab.api",
    "doctor": "gradlab.api",
    "export": "gradlab.api",
    "judge": "gradlab.api",
    "lab": "gradlab.api",
    "log": "gradlab.comparing.channel",
    "plan": "gradlab.api",
    "list_runs": "gradlab.api",
    "list_studies": "gradlab.api",
    "load": "gradlab.api",
    "open_run": "gradlab.api",
    "predict": "gradlab.api",
    "probe": "gradlab.api",
    "reproduce": "gradlab.api",
    "run": "gradlab.api",
    "status": "gradlab.api",
    "until_settled": "gradlab.api",
    "verify": "gradlab.api",
    "watch": "gradlab.api",
}

__all__ = [
    "GradlabError",
    "Result",
    "Study",
    "__version__",
    "audit",
    "command",
    "compare",
    "doctor",
    "export",
    "judge",
    "lab",
    "list_runs",
    "list_studies",
    "load",
    "log",
    "open_run",
    "plan",
    "predict",
    "probe",
    "reproduce",
    "run",
    "status",
    "until_settled",
    "verify",
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

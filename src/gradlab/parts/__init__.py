"""Parts: the file is the plug-in.

An activation, skip, norm, init, loss, optimizer, schedule, task, probe, score, engine, caveat, executor, figure or
tracker is a *part*: a small class. A built-in part exists because its class stands in the file or folder of its kind
(`HOMES`); a user's part exists because a study names its file (`parts: [./my_skip.py]`). No second list is edited.

Everything needed to write one is imported from here:

    from gradlab.parts import Activation

    class Bent(Activation):
        '''f(x) = x + c tanh(x).'''

        name = "bent"
        c: float = 0.5

A part is a frozen dataclass (subclassing makes it one), so its annotated attributes are its parameters, checked by
pydantic and settable from YAML:

    activation: bent                                # in a study
    activation: {kind: bent, c: 0.2}

The base classes and what they are used with are imported when they are asked for, so this package stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradlab.parts.catalog import BUILT_IN as BUILT_IN
from gradlab.parts.catalog import HOMES as HOMES
from gradlab.parts.catalog import Catalog as Catalog
from gradlab.parts.catalog import PartFile as PartFile
from gradlab.parts.catalog import blaming as blaming
from gradlab.parts.catalog import built_in_names as built_in_names
from gradlab.parts.catalog import load_file as load_file
from gradlab.parts.part import Part as Part
from gradlab.parts.part import StandIn as StandIn
from gradlab.parts.part import with_article as with_article

if TYPE_CHECKING:
    from gradlab.audits.caveats.base import Caveat as Caveat
    from gradlab.audits.caveats.base import Design as Design
    from gradlab.audits.caveats.base import Remark as Remark
    from gradlab.data.base import Dataset as Dataset
    from gradlab.data.base import Facts as Facts
    from gradlab.data.base import Task as Task
    from gradlab.engines.base import Engine as Engine
    from gradlab.network.activations import Activation as Activation
    from gradlab.network.inits import Init as Init
    from gradlab.network.layout import Tensor as Tensor
    from gradlab.network.losses import Loss as Loss
    from gradlab.network.norms import Norm as Norm
    from gradlab.network.skips import Skip as Skip
    from gradlab.optim.optimizers import Optimizer as Optimizer
    from gradlab.optim.schedules import Horizon as Horizon
    from gradlab.optim.schedules import Reaction as Reaction
    from gradlab.optim.schedules import Schedule as Schedule
    from gradlab.probes import LayerView as LayerView
    from gradlab.probes import Probe as Probe
    from gradlab.report.figures.base import Figure as Figure
    from gradlab.runs.executors.base import Executor as Executor
    from gradlab.scores import Score as Score
    from gradlab.trackers.base import Session as Session
    from gradlab.trackers.base import Tracker as Tracker

BASES = {kind.capitalize(): home for kind, home in HOMES.items()}
"""Base class of each kind -> where its parts are; in a folder it is in `base.py`."""
COMPANIONS = {
    "Dataset": "gradlab.data.base",
    "Facts": "gradlab.data.base",
    "Tensor": "gradlab.network.layout",
    "Horizon": "gradlab.optim.schedules",
    "Reaction": "gradlab.optim.schedules",
    "LayerView": "gradlab.probes",
    "Design": "gradlab.audits.caveats.base",
    "Remark": "gradlab.audits.caveats.base",
    "Session": "gradlab.trackers.base",
}
"""What a part takes or gives, besides arrays and numbers."""


def __getattr__(name: str) -> Any:
    if name in COMPANIONS:
        return getattr(import_module(COMPANIONS[name]), name)
    if name not in BASES:
        raise AttributeError(f"module 'gradlab.parts' has no attribute {name!r}")
    home = import_module(BASES[name])
    return getattr(import_module(f"{home.__name__}.base") if hasattr(home, "__path__") else home, name)


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if not name.startswith("_")), *BASES, *COMPANIONS])

"""Parts: the file is the plug-in.

An activation, skip, norm, init, loss, optimizer, schedule, task, probe, engine, caveat, executor, figure or tracker is
a *part*: a small class in a file of its own. A built-in part exists because its file is in the folder of its kind; a
user's part exists because a study names its file (`parts: [./my_skip.py]`). No second list is edited.

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
from gradlab.parts.catalog import Catalog as Catalog
from gradlab.parts.catalog import blaming as blaming
from gradlab.parts.folders import FOLDERS as FOLDERS
from gradlab.parts.folders import built_in_names as built_in_names
from gradlab.parts.loading import PartFile as PartFile
from gradlab.parts.loading import load_file as load_file
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
    from gradlab.network.activations.base import Activation as Activation
    from gradlab.network.inits.base import Init as Init
    from gradlab.network.losses.base import Loss as Loss
    from gradlab.network.norms.base import Norm as Norm
    from gradlab.network.skips.base import Skip as Skip
    from gradlab.network.tensors import Tensor as Tensor
    from gradlab.optim.optimizers.base import Optimizer as Optimizer
    from gradlab.optim.schedules.base import Horizon as Horizon
    from gradlab.optim.schedules.base import Reaction as Reaction
    from gradlab.optim.schedules.base import Schedule as Schedule
    from gradlab.probes.base import LayerView as LayerView
    from gradlab.probes.base import Probe as Probe
    from gradlab.report.figures.base import Figure as Figure
    from gradlab.runs.executors.base import Executor as Executor
    from gradlab.trackers.base import Session as Session
    from gradlab.trackers.base import Tracker as Tracker

BASES = {kind.capitalize(): f"{folder}.base" for kind, folder in FOLDERS.items()}
"""Base class of each kind -> its module: `Skip` is in `base.py` of the skips' folder."""
COMPANIONS = {
    "Dataset": "gradlab.data.base",
    "Facts": "gradlab.data.base",
    "Tensor": "gradlab.network.tensors",
    "Horizon": "gradlab.optim.schedules.base",
    "Reaction": "gradlab.optim.schedules.base",
    "LayerView": "gradlab.probes.base",
    "Design": "gradlab.audits.caveats.base",
    "Remark": "gradlab.audits.caveats.base",
    "Session": "gradlab.trackers.base",
}
"""What a part takes or gives, besides arrays and numbers."""


def __getattr__(name: str) -> Any:
    home = BASES.get(name) or COMPANIONS.get(name)
    if home is None:
        raise AttributeError(f"module 'gradlab.parts' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if not name.startswith("_")), *BASES, *COMPANIONS])

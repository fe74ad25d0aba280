"""PyTorch instruments: Gradlab networks as modules, and the probe and the watch for any PyTorch code.

>>> import gradlab
>>> with gradlab.probe(model) as p:                     # any nn.Module
...     loss_fn(model(x), y).backward()
>>> p.table(); p.diagnose(); p.figure()
>>> gradlab.torch.predict(model, x, y, loss=loss_fn)     # what theory expects of a plain or residual MLP
>>> gradlab.torch.to_module("identity", "residual")     # a study's network as an nn.Module

Imports are lazy; without torch, the error names the extra to install.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlab.engines.torch.module import LabModule
    from gradlab.plans.plan import Plan
    from gradlab.studies.loading import StudyLike

_HOMES = {"Probe": ("probe", "ModuleProbe"), "Watch": ("watch", "Watch"), "predict": ("theory", "predict")}

__all__ = ["Probe", "Watch", "predict", "to_module"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from gradlab.engines.torch.require import require_torch

        require_torch()
        module, attribute = _HOMES[name]
        return getattr(import_module(f"gradlab.torch.{module}"), attribute)
    raise AttributeError(f"module 'gradlab.torch' has no attribute {name!r}")


def to_module(study: StudyLike | Plan, group: str | None = None, seed: int | None = None) -> LabModule:
    """Return a group's network (default: the first group) before training at a seed (default: the first).

    It is a plain `nn.Module` with Gradlab's initial parameters. `module.load_lab(result.weights(group, seed))` loads
    trained parameters, and `module.lab_weights()` returns them. `state_dict` has the same names, with weights
    transposed to PyTorch's layout.
    """
    from gradlab.engines.torch.require import require_torch
    from gradlab.errors import StudyError, nearest
    from gradlab.studies.loading import plan
    from gradlab.trials.setup import prepare

    torch = require_torch()
    from gradlab.engines.torch.module import LabModule

    planned = plan(study)
    names = [each.group.name for each in planned.groups]
    wanted = names[0] if group is None else group
    chosen = planned.resolved.study.trial_seeds[0] if seed is None else seed
    for trial in planned.trials:
        if trial.group == wanted and trial.seed == chosen:
            setup = prepare(trial)
            module = LabModule(setup.mlp, torch.float32 if setup.theta.dtype.itemsize == 4 else torch.float64)
            module.load_flat(setup.theta)
            return module
    if wanted not in names:
        raise StudyError(f"{wanted!r} is not a group of this study; it has {', '.join(names)}{nearest(wanted, names)}")
    raise StudyError(f"seed {chosen} is not a seed of this study")

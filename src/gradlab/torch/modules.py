"""A study's network as a plain `nn.Module`, with Gradlab's initial parameters."""

from __future__ import annotations

import torch
from gradlab.engines.torch.module import LabModule
from gradlab.errors import StudyError, nearest
from gradlab.plans.plan import Plan
from gradlab.studies.loading import StudyLike, plan
from gradlab.trials.setup import prepare


def to_module(study: StudyLike | Plan, group: str | None = None, seed: int | None = None) -> LabModule:
    """Return a group's network (default: the first group) before training at a seed (default: the first).

    `module.load_lab(result.weights(group, seed))` loads trained parameters, and `module.lab_weights()` returns them.
    `state_dict` has the same names, with weights transposed to PyTorch's layout.
    """
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

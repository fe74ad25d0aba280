"""Who trains a network with a part trains what the part says, or refuses: no engine may quietly do something else."""

from __future__ import annotations

import copy
from importlib.util import find_spec
from typing import Any

import numpy as np

from gradlab.engines.base import Engine
from gradlab.engines.reference import Reference
from gradlab.parts import BUILT_IN, Part
from gradlab.spec.config import Config
from gradlab.testing.base import Check, check, require
from gradlab.testing.small import catalog_with
from gradlab.testing.trials import small_tree
from gradlab.trials.setup import prepare
from gradlab.trials.trial import Trial

SECTION = {"activation": "model", "skip": "model", "norm": "model", "loss": "train", "optimizer": "train"}
STEPS, TOLERANCE = 5, 1e-10
CLASSES = {"task": "mnist", "train": 24, "validation": 0, "test": 0}


def engines_agree(part: Part) -> Check:
    """Every engine agrees with the reference engine on a small network with this part, or says why it refuses it."""

    def agree() -> None:
        for name in BUILT_IN.names("engine"):
            if name not in ("auto", "reference") and not (name == "torch" and find_spec("torch") is None):
                for batch in (8, "full"):
                    _compare(BUILT_IN.make("engine", name, {}), part, batch)

    return check("every engine agrees with the reference engine, or refuses", agree)


def _compare(engine: Engine, part: Part, batch: int | str) -> None:
    trial = _trial(part, batch)
    refusal = engine.refusal(trial.config, trial.catalog)
    if refusal is not None:
        require(bool(refusal.strip()), f"the engine {engine.name!r} refuses it without a reason")
        return
    ours, reference = (each.train(prepare(trial)).theta for each in (engine, Reference()))
    error = float(np.linalg.norm(ours - reference) / np.linalg.norm(reference))
    both_diverge = not (np.isfinite(ours).all() or np.isfinite(reference).all())
    require(
        both_diverge or error <= TOLERANCE,
        f"the engine {engine.name!r} trains something else: after {STEPS} steps (batch {batch}) its parameters differ "
        f"from the reference engine's by {error:.1e}",
    )


def _trial(part: Part, batch: int | str) -> Trial:
    base: dict[str, Any] = copy.deepcopy(small_tree()["base"])
    # not Adam: it makes steps of the sign of gradients that are 0 but for rounding, as a bias has before batch norm
    base["train"] |= {"batch": batch, "steps": STEPS, "optimizer": "momentum", "lr": 1e-3}
    if getattr(part, "targets", "values") == "classes":
        base["data"] = CLASSES
        base["model"] |= {"stem": "linear", "head": "linear"}
    base[SECTION[part.part]][part.part] = {"kind": part.name, **part.parameters()}
    catalog = BUILT_IN if part.name in BUILT_IN.names(part.part) else catalog_with(part)
    config = Config.model_validate(base, context={"catalog": catalog})
    return Trial("contract", "contract", 0, 0, config, catalog)

"""A frame: everything that the page shows of both networks after a step, as one message.

Every frame is complete, so that a page that missed some needs only the newest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.plans.plan import Plan
from gradlab.trials.setup import Setup
from gradlab.web.layers import ROWS, Layers, look_inside, narrow_probes
from gradlab.web.pair import ArmState, PairState
from gradlab.web.planning import name_arms
from gradlab.web.scenes import Array, Scene, estimate_accuracy, make_scene
from gradlab.web.settings import Settings
from gradlab.web.words import guessing_loss, tell

MOST_POINTS = 240
"""Points of a loss curve in one message."""


@dataclass(frozen=True)
class Stage:
    """What stays the same between two restarts: the set-ups as the layer view needs them, and the scene."""

    settings: Settings
    plan: Plan
    setups: tuple[Setup, ...]
    scene: Scene | None
    guessing: float
    """The loss of one answer for all samples."""


def make_stage(settings: Settings, plan: Plan, setups: Sequence[Setup]) -> Stage:
    """The stage of two networks."""
    return Stage(settings, plan, tuple(map(narrow_probes, setups)), make_scene(setups[0]), guessing_loss(setups[0]))


def describe_stage(stage: Stage) -> dict[str, Any]:
    """What a page is told once per restart."""
    plan = stage.plan
    return {
        "settings": stage.settings.model_dump(mode="json"),
        "names": list(name_arms(stage.settings, plan)),
        "steps": plan.groups[0].cost.steps,
        "layers": [planned.cost.layers for planned in plan.groups],
        "parameters": [planned.cost.parameters for planned in plan.groups],
        "stated": plan.groups[0].stated,
        "engine": [planned.engine for planned in plan.groups],
        "formulas": [setup.mlp.skip.written(planned.config.model.width, planned.config.model.depth)
                     for setup, planned in zip(stage.setups, plan.groups, strict=True)],
        "scene": None if stage.scene is None else stage.scene.to_json(),
    }  # fmt: skip


def make_frame(stage: Stage, state: PairState) -> dict[str, Any]:
    """What a page is told of a moment."""
    return {
        "step": state.step,
        "arms": [_show_arm(stage, setup, arm) for setup, arm in zip(stage.setups, state.arms, strict=True)],
    }


def _show_arm(stage: Stage, setup: Setup, state: ArmState) -> dict[str, Any]:
    layers = look_inside(setup, state)
    told = tell(setup.trial.config, state, layers, stage.guessing)
    accuracy = estimate_accuracy(setup, state)
    return {
        "loss": _number(float(state.losses[-1])) if len(state.losses) else None,
        "curve": thin_curve(state.losses),
        "layers": _rows(layers),
        "state": told.state,
        "words": told.words,
        "accuracy": None if accuracy is None else round(accuracy, 4),
        "ended": state.finished,
        "digest": state.digest,
        **({} if stage.scene is None else stage.scene.show(setup, state)),
    }


def thin_curve(losses: Array) -> dict[str, Any]:
    """The means of equal stretches of a curve, so many that they fit in a message: {"every": k, "y": […]}."""
    every = max(1, math.ceil(len(losses) / MOST_POINTS))
    starts = np.arange(0, len(losses), every)
    if not len(starts):
        return {"every": 1, "y": []}
    with np.errstate(all="ignore"):
        sums = np.add.reduceat(losses, starts)
    sizes = np.diff(np.append(starts, len(losses)))
    return {"every": every, "y": [_number(float(mean)) for mean in sums / sizes]}


def _rows(layers: Layers) -> dict[str, list[float | None]]:
    return {row: [_number(value) for value in getattr(layers, row)] for row in ROWS}


def _number(value: float) -> float | None:
    """Four digits, which is what a picture can show; None where it is not finite."""
    return float(f"{value:.4g}") if math.isfinite(value) else None


def write_message(tree: dict[str, Any]) -> bytes:
    """A message as it is sent."""
    return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()

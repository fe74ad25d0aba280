"""A frame: everything that the page shows of both networks after a step, as one message.

Every frame is complete, so that a page that missed some needs only the newest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.plans.plan import Plan
from gradlab.trials.setup import Setup
from gradlab.web.layers import ROWS, Inside, Layers
from gradlab.web.pair import ArmState, PairState
from gradlab.web.planning import name_arms
from gradlab.web.scenes import Array, Asked, Scene, make_scene
from gradlab.web.settings import Settings
from gradlab.web.words import guessing_loss, recent_loss, tell

MOST_POINTS = 320
"""Points of a loss curve in one message."""


class Curve:
    """A loss curve as means of equal stretches; what was computed for the frame before is kept."""

    def __init__(self) -> None:
        self._every, self._means = 1, list[float | None]()

    def thin(self, losses: Array) -> dict[str, Any]:
        """Stretches of 1, 2, 4 … steps, so long that they fit in a message: {"every": k, "y": […]}."""
        every = 2 ** max(0, math.ceil(math.log2(max(len(losses), 1) / MOST_POINTS)))
        whole, rest = divmod(len(losses), every)
        if every != self._every or whole < len(self._means):
            self._every, self._means = every, []
        new = losses[len(self._means) * every : whole * every]
        with np.errstate(all="ignore"):
            self._means += [_number(mean) for mean in new.reshape(-1, every).mean(1).tolist()]
            last = [_number(float(losses[-rest:].mean()))] if rest else []
        return {"every": every, "y": self._means + last}


@dataclass(frozen=True)
class Stage:
    """What stays the same between two restarts: the two networks as they are looked at, and the scene."""

    settings: Settings
    plan: Plan
    setups: tuple[Setup, ...]
    networks: tuple[Inside, ...]
    curves: tuple[Curve, ...]
    asked: Asked
    scene: Scene | None
    guessing: float
    """The loss of one answer for all samples."""


def make_stage(settings: Settings, plan: Plan, setups: Sequence[Setup]) -> Stage:
    """The stage of two networks."""
    scene = make_scene(setups[0])
    networks, curves = tuple(map(Inside, setups)), tuple(Curve() for _ in setups)
    asked = Asked(setups[0], scene)
    return Stage(settings, plan, tuple(setups), networks, curves, asked, scene, guessing_loss(setups[0]))


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
    return {"step": state.step, "arms": [_show_arm(stage, *each) for each in enumerate(state.arms)]}


def _show_arm(stage: Stage, number: int, state: ArmState) -> dict[str, Any]:
    network = stage.networks[number]
    network.take(state)
    layers = network.measure()
    told = tell(stage.setups[number].trial.config, state, layers, stage.guessing)
    return {
        "loss": None if (loss := recent_loss(state)) is None else _number(loss),
        "curve": stage.curves[number].thin(state.losses),
        "layers": _rows(layers),
        "state": told.state,
        "words": told.words,
        "ended": state.finished,
        "digest": state.digest,
        **stage.asked.ask(network),
    }


def _rows(layers: Layers) -> dict[str, list[float | None]]:
    return {row: [_number(value) for value in getattr(layers, row)] for row in ROWS}


def _number(value: float) -> float | None:
    """Four digits, which is what a picture can show; None where it is not finite."""
    return float(f"{value:.4g}") if math.isfinite(value) else None

"""A pair of arms through training: frames at the study's own moments, from the same trials trained once more.

A trial's bits do not depend on what is kept of it, so training it again with more snapshots gives the same network;
where the run has kept the last parameters, the film is checked against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gradlab.audits.pairs import pairs_of
from gradlab.engines.base import one_blas_thread
from gradlab.plans.cost import measure_speed
from gradlab.plans.plan import Plan, PlannedGroup
from gradlab.report.inside.frame import Frame, frame
from gradlab.runs.worker import run_trial
from gradlab.spec.expand import Group
from gradlab.trials.setup import moments_of, prepare
from gradlab.trials.trial import Trial

MOST_SECONDS, MOST_SHARE = 5.0, 0.05
"""A trial that takes longer, and more than this share of the study, is not trained again: its film has two frames."""
FEWEST_LAYERS = 4
MOST_FRAMES = 14


@dataclass(frozen=True)
class Film:
    """Frames of two arms at one seed, at the same steps where both have them."""

    arms: tuple[str, str]
    seed: int
    formulas: tuple[str, str]
    """The forward pass of a block, of each arm."""
    frames: tuple[tuple[Frame, ...], tuple[Frame, ...]]
    same_bits: bool | None
    """Whether the last frame's parameters are those that the run kept; None where it kept none."""

    def to_json(self) -> dict[str, Any]:
        """As plain data, six digits each."""
        return {
            "arms": list(self.arms),
            "seed": self.seed,
            "formulas": list(self.formulas),
            "same_bits": self.same_bits,
            "frames": [[_plain(one) for one in arm] for arm in self.frames],
        }

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> Film:
        """A film that was kept with a run."""
        first, second = ([_frame(one) for one in arm] for arm in tree["frames"])
        return Film(
            (tree["arms"][0], tree["arms"][1]),
            tree["seed"],
            (tree["formulas"][0], tree["formulas"][1]),
            (tuple(first), tuple(second)),
            tree["same_bits"],
        )


def choose(plan: Plan) -> tuple[str, str] | None:
    """The pair that tells most: the first of the deepest networks that the audit would compare."""
    study = plan.resolved.study
    pairs = pairs_of(study, [planned.group for planned in plan.groups])
    if not pairs:
        return None
    layers = {planned.group.name: planned.cost.layers for planned in plan.groups}
    best = max(pairs, key=lambda pair: layers[pair.a.name] + layers[pair.b.name])
    few = min(layers[best.a.name], layers[best.b.name]) < FEWEST_LAYERS
    return None if few else (best.a.name, best.b.name)


def shoot(plan: Plan, arms: tuple[str, str], seed: int, kept: Mapping[str, Mapping[str, Any]]) -> Film | None:
    """The film of two arms at a seed; `kept` are last parameters by arm and name, where the run has them."""
    speed = measure_speed()
    planned = {found.group.name: found for found in plan.groups}
    chosen = [planned[name] for name in arms]
    if any(found.cost.layers > 256 or found.cost.parameters > 2_000_000 for found in chosen):
        return None
    found, same = [], []
    with one_blas_thread():
        for group in chosen:
            retrain = speed.seconds(group.cost) <= max(MOST_SECONDS, MOST_SHARE * plan.seconds(speed))
            shots = _shots(plan, group, seed, retrain, kept.get(group.group.name, {}))
            if shots is None:
                return None
            frames, bits = shots
            found.append(frames)
            same.append(bits)
    bits_known = [bit for bit in same if bit is not None]
    formulas = [prepare(_trial(plan, group.group, seed)).mlp.skip.formula for group in chosen]
    return Film(arms, seed, (formulas[0], formulas[1]), (found[0], found[1]), all(bits_known) if bits_known else None)


def _trial(plan: Plan, group: Group, seed: int) -> Trial:
    return Trial("", group.name, seed, plan.resolved.study.seed, group.config, plan.resolved.catalog)


def _shots(
    plan: Plan, planned: PlannedGroup, seed: int, retrain: bool, kept: Mapping[str, Any]
) -> tuple[tuple[Frame, ...], bool | None] | None:
    """Frames of one arm, and whether the last one is the network that the run kept."""
    trial = _trial(plan, planned.group, seed)
    setup = prepare(trial)
    steps = setup.steps
    if not retrain:
        if not kept:
            return None
        last = np.concatenate([np.ravel(kept[slot.name]) for slot in setup.mlp.layout.slots])
        return (frame(setup, setup.theta, 0), frame(setup, last, steps)), True
    moments = [step for step in moments_of(trial.config.measure, steps) if 0 < step < steps][: MOST_FRAMES - 2]
    measure = trial.config.measure.model_copy(update={"weights": (*moments, "end"), "layers": (), "target": None})
    config = trial.config.model_copy(update={"measure": measure.model_copy(update={"evaluate_every": 10**9})})
    result = run_trial(Trial("", trial.group, seed, trial.root, config, trial.catalog))
    if result.outcome is None:
        return None
    frames = [frame(setup, setup.theta, 0)]
    frames += [frame(setup, shot.theta, shot.step) for shot in result.outcome.snapshots if shot.step > 0]
    same = None
    if kept and result.outcome.snapshots:
        named = result.outcome.snapshots[-1].tensors
        same = all(np.array_equal(named[name], values, equal_nan=True) for name, values in kept.items())
    return tuple(frames), same


def _plain(one: Frame) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for field in fields(one):
        value = getattr(one, field.name)
        tree[field.name] = _digits(value) if isinstance(value, np.ndarray) else value
    return tree


def _digits(values: Any) -> Any:
    if values.ndim > 1:
        return [_digits(row) for row in values]
    return [None if np.isnan(v) else float(f"{v:.6g}") if np.isfinite(v) else str(v) for v in values.tolist()]


def _frame(tree: Mapping[str, Any]) -> Frame:
    made: dict[str, Any] = {
        key: np.array(_numbers(value), float) if isinstance(value, list) else value for key, value in tree.items()
    }
    made["loss"] = float(made["loss"])
    return Frame(**made)


def _numbers(values: Any) -> Any:
    if isinstance(values, list):
        return [_numbers(value) for value in values]
    return np.nan if values is None else float(values)

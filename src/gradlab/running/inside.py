"""Record what happens inside two arms: train one trial of each again, with snapshots, and inspect them.

A trial's bits do not depend on what is kept of it, so training it again gives the same network. If the run kept the
last parameters, the recording is checked against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.arithmetic import one_blas_thread
from gradlab.audits.pairs import pairs_of
from gradlab.errors import GradlabError, PartError, StudyError, nearest
from gradlab.plans.cost import measure_speed
from gradlab.plans.plan import Plan, PlannedGroup
from gradlab.report.inside.recording import Inspection, Recording, inspect_network
from gradlab.report.result import Result
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.worker import call_isolated, run_trial
from gradlab.spec.claims import At
from gradlab.spec.config import Group
from gradlab.trials.setup import moments_of, prepare
from gradlab.trials.trial import Trial

MOST_SECONDS, MOST_SHARE = 5.0, 0.05
"""A trial that takes longer, and more than this share of the study, is only inspected at its first and last step."""
FEWEST_LAYERS, MOST_LAYERS, MOST_PARAMETERS = 4, 256, 2_000_000
MOST_INSPECTIONS = 14


def record_inside(
    measured: Measured, arms: tuple[str, str], seed: int | None = None, *, isolated: bool = False
) -> Recording | None:
    """Two arms at a seed (the first), layer by layer during training; None if a network is too large, or fails."""
    if measured.plan.own_code:
        raise StudyError("the micro-world is made of networks of the lab; in code of your own, use gradlab.watch")
    if not measured.plan.catalog.executed:
        raise PartError(
            "the networks of this run are trained again to be looked into, and parts of them are code that came with "
            "the run; --trust (in Python: open_run(…, trust=True)) runs it"
        )
    for arm in arms:
        if arm not in measured.group_names:
            raise StudyError(f"{arm!r} is not a group of this study{nearest(arm, measured.group_names)}")
    chosen = measured.study.trial_seeds[0] if seed is None else seed
    kept: dict[str, dict[str, Any]] = {}
    for trial in measured.trials:
        if trial.group in arms and trial.seed == chosen:
            weights = measured.records.weights(trial.id)
            if weights and "end" in measured.plan.study.measure.weights:
                kept[trial.group] = dict(weights[max(weights)])
    try:
        recording: Recording | None = call_isolated(isolated, record_pair, measured.plan, arms, chosen, kept)
        return None if recording is None else _add_updates(recording, measured)
    except (GradlabError, KeyboardInterrupt):
        raise
    except BaseException:  # a user part may fail here although training did not
        return None


def _add_updates(recording: Recording, measured: Measured) -> Recording:
    """The recording, with the update ratios that the study measured at the same steps."""

    def add(arm: str, inspection: Inspection) -> Inspection:
        layers = range(1, measured.layer_count(arm) + 1)
        places = [At(step=inspection.step, layer=layer) for layer in layers]
        found = [measured.values("update_ratio", arm, at).get(recording.seed) for at in places]
        known = [np.nan if value is None else float(value) for value in found]
        return replace(inspection, update=np.array(known) if np.isfinite(known).any() else None)

    first, second = (
        tuple(add(arm, inspection) for inspection in inspections)
        for arm, inspections in zip(recording.arms, recording.inspections, strict=True)
    )
    return replace(recording, inspections=(first, second))


def choose_pair(plan: Plan) -> tuple[str, str] | None:
    """The pair that shows most: the first of the deepest networks that the audit compares.

    None if there is no such pair, if its networks are shallow, or if the trials are user code.
    """
    if plan.own_code:
        return None
    study = plan.resolved.study
    pairs = pairs_of(study, [planned.group for planned in plan.groups])
    if not pairs:
        return None
    layers = {planned.group.name: planned.cost.layers for planned in plan.groups}
    best = max(pairs, key=lambda pair: layers[pair.a.name] + layers[pair.b.name])
    few = min(layers[best.a.name], layers[best.b.name]) < FEWEST_LAYERS
    return None if few else (best.a.name, best.b.name)


def record_pair(
    plan: Plan, arms: tuple[str, str], seed: int, kept: Mapping[str, Mapping[str, Any]]
) -> Recording | None:
    """Record two arms at a seed; `kept` are the last parameters by arm and name, if the run has them."""
    speed = measure_speed()
    planned = {found.group.name: found for found in plan.groups}
    chosen = [planned[name] for name in arms]
    if any(found.cost.layers > MOST_LAYERS or found.cost.parameters > MOST_PARAMETERS for found in chosen):
        return None
    found, same = [], []
    with one_blas_thread():
        for group in chosen:
            retrain = speed.seconds(group.cost) <= max(MOST_SECONDS, MOST_SHARE * plan.seconds(speed))
            recorded = _record_arm(plan, group, seed, retrain, kept.get(group.group.name, {}))
            if recorded is None:
                return None
            inspections, bits = recorded
            found.append(inspections)
            same.append(bits)
    bits_known = [bit for bit in same if bit is not None]
    formulas = [prepare(_make_trial(plan, group.group, seed)).mlp.skip.formula for group in chosen]
    return Recording(
        arms, seed, (formulas[0], formulas[1]), (found[0], found[1]), all(bits_known) if bits_known else None
    )


def _make_trial(plan: Plan, group: Group, seed: int) -> Trial:
    return Trial("", group.name, seed, plan.resolved.study.seed, group.config, plan.resolved.catalog)


def _record_arm(
    plan: Plan, planned: PlannedGroup, seed: int, retrain: bool, kept: Mapping[str, Any]
) -> tuple[tuple[Inspection, ...], bool | None] | None:
    """Inspections of one arm, and whether the last one is of the network that the run kept."""
    trial = _make_trial(plan, planned.group, seed)
    setup = prepare(trial)
    steps = setup.steps
    if not retrain:
        if not kept or trial.config.train.early_stopping is not None:  # after which step they were kept is not known
            return None
        last = np.concatenate([np.ravel(kept[slot.name]) for slot in setup.mlp.layout.slots])
        return (inspect_network(setup, setup.theta, 0), inspect_network(setup, last, steps)), True
    moments = [step for step in moments_of(trial.config.measure, steps) if 0 < step < steps][: MOST_INSPECTIONS - 2]
    measure = trial.config.measure.model_copy(
        update={"weights": (*moments, "end"), "layers": (), "target": None, "best": None}
    )
    config = trial.config.model_copy(update={"measure": measure.model_copy(update={"evaluate_every": 10**9})})
    result = run_trial(Trial("", trial.group, seed, trial.root, config, trial.catalog))
    if result.outcome is None:
        return None
    inspections = [inspect_network(setup, setup.theta, 0)]
    inspections += [
        inspect_network(setup, snapshot.theta, snapshot.step)
        for snapshot in result.outcome.snapshots
        if snapshot.step > 0
    ]
    same = None
    if kept and result.outcome.snapshots:
        named = result.outcome.snapshots[-1].tensors
        same = all(np.array_equal(named[name], values, equal_nan=True) for name, values in kept.items())
    return tuple(inspections), same


def look_again(result: Result, arms: tuple[str, str] | None, seed: int | None) -> Result:
    """The result with the micro-world of other arms or another seed, which is kept in the run's folder."""
    kept = result.recording
    chosen = arms or (kept.arms if kept is not None else choose_pair(result.measured.plan))
    if chosen is None:
        raise StudyError("this study has no pair of arms with enough layers to look into; name two with --pair")
    recording = record_inside(result.measured, chosen, seed)
    if recording is None:
        raise StudyError(f"{chosen[0]} and {chosen[1]} cannot be looked into: too large, or a user part fails")
    if result.folder is not None:
        RunFolder(result.folder).keep_microworld(recording.to_json())
    return replace(result, recording=recording)

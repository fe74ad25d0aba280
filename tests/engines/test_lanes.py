"""Tiny networks side by side: they agree with the reference engine and do not affect each other."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from agreement import difference, losses

import gradlab
from gradlab.engines.fused import LANES, Fused, lanes
from gradlab.engines.fused.kernels import supported
from gradlab.engines.fused.kernels.lanes import NETS
from gradlab.engines.reference import Reference
from gradlab.parts import BUILT_IN
from gradlab.runs.worker import Monitor, group_trials, run_bundle, run_trial
from gradlab.trials import Setup, prepare

ACTIVATIONS, OPTIMIZERS = BUILT_IN.names("activation"), tuple(supported.OPTIMIZERS)
SOME = ("relu", "tanh", "sigmoid", "selu")
"""Activations that meet every optimizer."""


def study(model: dict[str, Any] | None = None, data: dict[str, Any] | None = None, **train: Any) -> dict[str, Any]:
    return {
        "question": "Does the machinery work?",
        "base": {
            "data": data or {"task": "identity", "dim": 3, "samples": 11},
            "model": {"depth": 2, "width": 7, "activation": "tanh", **(model or {})},
            "train": {
                "loss": "mse", "optimizer": "sgd", "lr": 0.05, "batch": "full", "steps": 20, "precision": "float64",
                **train,
            },
        },
        "seeds": 1,
        "measure": {"layers": ["start", 5, "end"], "weights": ["start", 7, "end"]},
    }  # fmt: skip


def setups(tree: dict[str, Any], seeds: int = 1) -> list[Setup]:
    return [prepare(trial) for trial in gradlab.plan(tree, seeds=seeds).trials]


def assert_agrees(setup: Setup, tolerance: float = 1e-10) -> None:
    assert lanes.fits(setup.trial.config, setup.trial.catalog)
    ours, reference = Fused().train(setup), Reference().train(setup)
    assert difference(setup.mlp, reference.theta, ours.theta) <= tolerance
    np.testing.assert_allclose(losses(ours), losses(reference), rtol=tolerance, atol=1e-13)
    assert ours.layers.measure == reference.layers.measure
    np.testing.assert_allclose(ours.layers.value, reference.layers.value, rtol=1e-6, atol=1e-12)
    assert [kept.step for kept in ours.snapshots] == [0, 7, 20]


@pytest.mark.parametrize(
    ("activation", "optimizer"),
    [(a, o) for a, o in itertools.product(ACTIVATIONS, OPTIMIZERS) if a in SOME or o in ("adam", "momentum")],
)
def test_every_activation_and_optimizer_agrees_with_the_reference(activation: str, optimizer: str) -> None:
    decay = {"kind": optimizer, "weight_decay": 0.01}
    (setup,) = setups(study({"activation": activation}, optimizer=decay, lr=0.01, schedule="cosine", warmup=3))
    assert_agrees(setup)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8, 13, 16, 32])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_every_shape_agrees_with_the_reference(width: int, depth: int) -> None:
    for samples in (1, 3, 16, 30):
        (setup,) = setups(study({"depth": depth, "width": width}, {"task": "identity", "dim": 2, "samples": samples}))
        assert_agrees(setup)
    (bare,) = setups(
        study(
            {"depth": depth, "width": width, "stem": "none", "head": "none", "bias": False},
            {"task": "identity", "dim": width, "samples": 6},
            clip=0.01,
        )
    )
    assert_agrees(bare)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_classes_evaluation_and_accuracy_agree_with_the_reference(optimizer: str) -> None:
    data = {"task": "mnist", "train": 9, "validation": 5, "test": 6}
    tree = study({"width": 4, "depth": 1}, data, loss="cross_entropy", optimizer=optimizer, clip=0.5)
    (setup,) = setups(tree)
    assert_agrees(setup)
    ours, reference = Fused().train(setup), Reference().train(setup)
    for metric in ("train_accuracy", "test_accuracy", "validation_loss", "test_loss"):
        assert ours.metrics[metric] == pytest.approx(reference.metrics[metric], rel=1e-9)


def test_one_step_in_single_precision_agrees() -> None:
    for activation in ACTIVATIONS:
        tree = study({"activation": activation}, steps=1, precision="float32") | {"measure": {"layers": ["end"]}}
        (setup,) = setups(tree)
        ours, reference = Fused().train(setup), Reference().train(setup)
        assert difference(setup.mlp, reference.theta, ours.theta) <= 1e-5


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_network_does_not_depend_on_its_neighbors(precision: str) -> None:
    """Alone, among others, in another lane, beside one that diverges: the same bits."""
    tree = study(precision=precision, optimizer="adam", lr=0.01)
    many = setups(tree, seeds=LANES)
    alone = [Fused().train(setup) for setup in many]
    wild = replace(many[3], rates=np.full(20, 1e30))
    for group in (many, many[::-1], [*many[:3], wild, *many[4:]], many[5:9]):
        together = Fused().train_together(group, [None] * len(group))
        for setup, outcome in zip(group, together, strict=True):
            if setup is not wild:
                expected = alone[setup.trial.seed]
                assert outcome.theta.tobytes() == expected.theta.tobytes()
                assert losses(outcome).tobytes() == losses(expected).tobytes()
                assert outcome.layers.value.tobytes() == expected.layers.value.tobytes()


def test_divergence_ends_one_lane_with_its_step_and_its_parameters() -> None:
    tree = study({"activation": "relu"}, lr=0.01)
    calm, wild = setups(tree, seeds=2)
    wild = replace(wild, rates=np.full(20, 1e20))
    ours, reference = Fused().train_together([calm, wild], [None, None])[1], Reference().train(wild)
    assert (ours.status, ours.metrics["diverged_step"]) == ("diverged", reference.metrics["diverged_step"])
    np.testing.assert_allclose(ours.theta, reference.theta, rtol=1e-6)
    assert len(losses(ours)) == len(losses(reference))
    start = wild.theta.copy()
    start[0] = np.nan
    assert Fused().train(replace(wild, theta=start)).metrics["diverged_step"] == 1


def test_only_the_trial_itself_decides_whether_it_is_trained_in_a_lane() -> None:
    def path(tree: dict[str, Any]) -> str:
        return gradlab.plan(tree).groups[0].numerics

    assert path(study()) == "fused-1-lanes"
    assert path(study(batch=11)) == "fused-1-tiles"
    assert path(study({"width": 64})) == "fused-1-tiles"
    assert path(study({"norm": "layer"})) == "fused-1-tiles"
    assert path(study({"skip": "identity"})) == "fused-1-tiles"
    assert path(study({"skip": "identity", "depth": 1})) == "fused-1-lanes"
    assert path(study(engine={"kind": "fused", "products": "tiles"})) == "fused-1-tiles"
    assert path(study(data={"task": "identity", "dim": 3, "samples": 5000})) == "fused-1-tiles"
    mnist = {"task": "mnist", "train": 3000, "validation": 0, "test": 0}
    assert path(study({"width": 10}, mnist, loss="cross_entropy")) == "fused-1-sparse"
    assert LANES == NETS


def test_a_bundle_trains_alike_networks_together_with_the_bits_of_single_runs() -> None:
    tree = study(lr=0.05) | {"seeds": 12}
    tree["axes"] = {"train.lr": [0.01, 0.02], "model.activation": ["relu", "tanh"]}
    trials = gradlab.plan(tree).trials
    groups = group_trials(trials)
    assert sorted(trial.id for group in groups for trial in group) == sorted(trial.id for trial in trials)
    assert [len(group) for group in groups] == [16, 16, 8, 8]
    assert all(len({trial.config.model.activation.name for trial in group}) == 1 for group in groups)
    together = {result.trial.id: result for result in run_bundle(trials, Monitor())}
    assert all(together[trial.id].digest == run_trial(trial).digest for trial in trials)
    other = gradlab.plan(study(batch=5) | {"seeds": 3}).trials
    assert [len(group) for group in group_trials(other)] == [1, 1, 1]


def test_networks_that_differ_in_shape_are_not_alike() -> None:
    def config(**train: Any) -> Any:
        return gradlab.load(study(**train)).groups[0].config

    engine = Fused()
    assert engine.can_group(config(), config(lr=1.0, schedule="cosine", clip=3.0))
    assert engine.can_group(config(optimizer="adam"), config(optimizer={"kind": "adam", "beta1": 0.5}))
    assert not engine.can_group(config(), config(optimizer="adam"))
    assert not engine.can_group(config(), config(steps=21))
    assert not engine.can_group(config(), config(precision="float32"))
    assert not engine.can_group(config(), config(model={"width": 8}))
    assert not engine.can_group(config(), config(data={"task": "identity", "dim": 3, "samples": 12}))


def test_a_failure_in_a_group_belongs_to_one_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradlab.runs import worker as base

    trials = gradlab.plan(study() | {"seeds": 4}).trials

    def faulty(trial: Any) -> Setup:
        if trial.seed == 2:
            raise MemoryError("no room for this one")
        return prepare(trial)

    monkeypatch.setattr(base, "prepare", faulty)
    results = run_bundle(trials, Monitor())
    assert [result.status for result in results] == ["done", "done", "failed", "done"]

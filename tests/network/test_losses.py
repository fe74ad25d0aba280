"""Losses against torch; one output for two classes trains, is scored and is measured like any classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import gradlab
from gradlab.engines.reference import Reference
from gradlab.engines.torch import Torch
from gradlab.errors import StudyError
from gradlab.parts import BUILT_IN
from gradlab.trials.measuring import sharpness
from gradlab.trials.setup import prepare

RNG = np.random.default_rng(0)
OUTPUT, VALUES, CLASSES = 3 * RNG.standard_normal((7, 4)), RNG.standard_normal((7, 4)), RNG.integers(4, size=7)
ONE_HOT = torch.tensor(np.eye(4)[CLASSES])
CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("mae", {}, lambda o: F.l1_loss(o, torch.tensor(VALUES))),
    ("huber", {"delta": 0.5}, lambda o: F.huber_loss(o, torch.tensor(VALUES), delta=0.5)),
    ("one_hot_mse", {}, lambda o: F.mse_loss(o, ONE_HOT)),
    ("one_hot_mse", {"over_outputs": "sum", "half": True}, lambda o: 0.5 * ((o - ONE_HOT) ** 2).sum(1).mean()),
    ("one_hot_cross_entropy", {}, lambda o: F.binary_cross_entropy_with_logits(o, ONE_HOT)),
    ("one_hot_cross_entropy", {"over_outputs": "sum"},
     lambda o: F.binary_cross_entropy_with_logits(o, ONE_HOT, reduction="none").sum(1).mean()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters", "theirs"), CASES, ids=[f"{n}-{p}" for n, p, _ in CASES])
def test_values_and_gradients_are_torchs(name: str, parameters: dict[str, Any], theirs: Any) -> None:
    loss = BUILT_IN.make("loss", name, parameters)
    output = torch.tensor(OUTPUT, requires_grad=True)
    expected = theirs(output)
    expected.backward()
    value, gradient = loss.value_and_gradient(OUTPUT, VALUES if loss.targets == "values" else CLASSES)
    assert value == pytest.approx(float(expected.detach()), rel=1e-12)
    np.testing.assert_allclose(gradient, output.grad.numpy(), rtol=1e-12)


def test_binary_cross_entropy_is_torchs_and_does_not_overflow() -> None:
    loss, target = BUILT_IN.make("loss", "binary_cross_entropy", {}), CLASSES % 2
    for scale in (1, 500):
        output = torch.tensor(scale * OUTPUT[:, :1], requires_grad=True)
        expected = F.binary_cross_entropy_with_logits(output[:, 0], torch.tensor(target, dtype=torch.float64))
        expected.backward()
        value, gradient = loss.value_and_gradient(scale * OUTPUT[:, :1], target)
        assert value == pytest.approx(float(expected.detach()), rel=1e-12)
        np.testing.assert_allclose(gradient, output.grad.numpy(), rtol=1e-9, atol=1e-300)


def tree(loss: str, task: str = "moons", **measure: Any) -> dict[str, Any]:
    return {
        "question": "Does one output do?",
        "base": {
            "data": {"task": task, "samples": 60, "test": 40},
            "model": {"depth": 2, "width": 10, "activation": "tanh"},
            "train": {
                "loss": loss, "optimizer": "adam", "lr": 0.03, "batch": 20, "epochs": 40, "precision": "float64",
            },
        },
        "seeds": 1,
        "measure": measure,
    }  # fmt: skip


def test_one_output_for_two_classes_learns_is_scored_and_agrees_across_engines() -> None:
    scores = ["accuracy", "calibration_error"]
    setup = prepare(gradlab.plan(tree("binary_cross_entropy", scores=scores)).trials[0])
    assert setup.mlp.layers[-1].fan_out == 1
    ours, theirs = Reference().train(setup), Torch().train(setup)
    assert ours.metrics["test_accuracy"] > 0.9
    assert ours.metrics["train_accuracy"] > 0.9
    assert 0 <= ours.metrics["test_calibration_error"] < 0.3
    assert theirs.metrics["train_accuracy"] == ours.metrics["train_accuracy"]
    np.testing.assert_allclose(ours.theta, theirs.theta, rtol=1e-6, atol=1e-9)


def test_one_output_equals_two_outputs_that_are_tied() -> None:
    binary, softmax = (BUILT_IN.make("loss", name, {}) for name in ("binary_cross_entropy", "cross_entropy"))
    one, target = OUTPUT[:, :1], CLASSES % 2
    assert binary.value(one, target) == pytest.approx(softmax.value(binary.class_outputs(one), target), rel=1e-12)


def test_one_output_for_ten_classes_is_refused() -> None:
    study = tree("binary_cross_entropy")
    study["base"]["data"] = {"task": "mnist", "train": 20, "validation": 0, "test": 10}
    with pytest.raises(StudyError, match="two classes"):
        gradlab.plan(study)


def test_the_whole_training_set_is_scored_at_the_end_and_the_gap_is_the_difference() -> None:
    outcome = Reference().train(prepare(gradlab.plan(tree("cross_entropy", train_set=True)).trials[0]))
    found = outcome.metrics
    assert found["generalization_gap"] == found["whole_train_accuracy"] - found["test_accuracy"]
    assert "whole_train_loss" not in Reference().train(prepare(gradlab.plan(tree("cross_entropy")).trials[0])).metrics


def test_sharpness_is_the_largest_eigenvalue_of_the_hessian() -> None:
    study = tree("cross_entropy", sharpness=60, layers=["start", "end"])
    study["base"]["model"]["width"] = 4
    setup = prepare(gradlab.plan(study).trials[0])
    mlp, (x, y) = setup.mlp, setup.dataset.gather(setup.dataset.train, np.float64)

    def gradient(theta: np.ndarray) -> np.ndarray:
        found = np.zeros_like(theta)
        p = mlp.layout.windows(theta)
        output, tape = mlp.forward(p, x, mlp.initial_running(float))
        mlp.backward(p, tape, setup.loss.value_and_gradient(output, y)[1], mlp.layout.windows(found))
        return found

    rows = np.eye(setup.theta.size) * 1e-5
    hessian = np.stack([(gradient(setup.theta + row) - gradient(setup.theta - row)) / 2e-5 for row in rows])
    expected = np.linalg.eigvalsh((hessian + hessian.T) / 2)[-1]
    assert sharpness(setup, setup.theta, mlp.initial_running(float)) == pytest.approx(expected, rel=1e-3)
    outcome = Reference().train(setup)
    (curve,) = [curve for curve in outcome.curves if curve.metric == "sharpness"]
    assert list(curve.steps) == [0, setup.steps]
    assert outcome.metrics["sharpness"] == curve.values[-1]


def test_a_claim_about_sharpness_or_the_gap_needs_its_measure() -> None:
    for metric in ("sharpness", "generalization_gap", "best_epoch"):
        with pytest.raises(StudyError, match="measure"):
            gradlab.plan({**tree("cross_entropy"), "claims": [{"text": "t", "metric": metric, "op": "<", "value": 1}]})

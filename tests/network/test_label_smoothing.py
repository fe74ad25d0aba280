"""A parameter of a loss belongs to the loss: label smoothing, checked two ways, on every engine that accepts it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.engines.fused import Fused
from gradlab.engines.reference import Reference
from gradlab.engines.torch import Torch
from gradlab.network.losses import CrossEntropy
from gradlab.parts import BUILT_IN
from gradlab.trials.setup import prepare

STUDY: dict[str, Any] = {
    "question": "Does smoothing train?",
    "base": {
        "data": {"task": "mnist", "train": 64, "validation": 0, "test": 0},
        "model": {"depth": 2, "width": 8},
        "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.1, "batch": 16, "steps": 6},
    },
    "arms": {"hard": {}, "soft": {"train.loss": {"kind": "cross_entropy", "label_smoothing": 0.1}}},
    "seeds": 1,
}


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_value_and_gradient_are_those_of_autograd_and_of_central_differences(smoothing: float) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    output, target = 3 * rng.standard_normal((5, 4)), rng.integers(4, size=5)
    loss = CrossEntropy(label_smoothing=smoothing)
    value, gradient = loss.value_and_gradient(output, target)
    assert loss.value(output, target) == value
    z = torch.tensor(output, requires_grad=True)
    theirs = torch.nn.functional.cross_entropy(z, torch.tensor(target), label_smoothing=smoothing)
    theirs.backward()
    assert value == pytest.approx(theirs.item(), rel=1e-12)
    np.testing.assert_allclose(gradient, z.grad.numpy(), rtol=0, atol=1e-14)
    h = 1e-6
    for place in np.ndindex(output.shape):
        step = np.zeros_like(output)
        step[place] = h
        numeric = (loss.value(output + step, target) - loss.value(output - step, target)) / (2 * h)
        assert gradient[place] == pytest.approx(numeric, abs=1e-9)


def test_without_smoothing_a_trial_is_the_one_it_was_before_the_parameter_existed() -> None:
    hard, soft = gradlab.plan(STUDY).groups
    written = gradlab.plan(STUDY, overrides={"train.loss": {"kind": "cross_entropy", "label_smoothing": 0.0}})
    assert hard.id == written.groups[0].id
    assert hard.id != soft.id
    assert hard.engine == "fused"


def test_engines_smooth_or_say_that_they_do_not() -> None:
    _, soft = gradlab.plan(STUDY).trials
    reason = Fused().refusal(soft.config, soft.catalog)
    assert reason == "its kernels do not read label_smoothing of the loss 'cross_entropy'"
    _, group = gradlab.plan(STUDY).groups
    assert group.engine == "reference"
    setup = prepare(soft)
    ours, theirs = Reference().train(setup), Torch().train(setup)
    np.testing.assert_allclose(ours.theta, theirs.theta, rtol=0, atol=1e-5)
    assert BUILT_IN.make("loss", "cross_entropy", {}).label_smoothing == 0


@pytest.mark.parametrize("wrong", [-0.1, 1.0, "much"])
def test_a_smoothing_that_is_no_share_is_refused_with_its_place(wrong: Any) -> None:
    arms = {"soft": {"train.loss": {"kind": "cross_entropy", "label_smoothing": wrong}}}
    with pytest.raises(gradlab.GradlabError, match=r"arms.soft.train.loss.label_smoothing: "):
        gradlab.plan({**STUDY, "arms": arms})

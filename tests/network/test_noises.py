"""Dropout and its like: right gradients, draws of their own, nothing in evaluation, the same in every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradlab
from gradlab.engines.auto import Auto
from gradlab.engines.fused import Fused
from gradlab.engines.reference import Reference
from gradlab.engines.torch import Torch
from gradlab.errors import StudyError
from gradlab.network.losses import Mse
from gradlab.network.mlp import MLP
from gradlab.network.noises import AlphaDropout, Draws, Dropout, StochasticDepth
from gradlab.parts import BUILT_IN
from gradlab.spec.config import Model
from gradlab.streams import Streams
from gradlab.testing.base import TOLERANCE, gradient_error
from gradlab.trials.setup import prepare

BASE: dict[str, Any] = {"depth": 5, "width": 5, "activation": "tanh", "stem": "linear", "head": "linear"}


def state(mlp: MLP) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    theta = 0.6 * rng.standard_normal(mlp.layout.size)
    return theta, rng.standard_normal((6, mlp.layers[0].fan_in)), rng.standard_normal((6, mlp.layers[-1].fan_out))


@pytest.mark.parametrize("skip", ["none", "add_then_activate", "pre_activation", "rezero"])
@pytest.mark.parametrize("norm", ["none", "layer"])
@pytest.mark.parametrize("noise", ["dropout", "alpha_dropout", "gaussian_noise"])
def test_gradients_are_right_with_noise_at_every_place(skip: str, norm: str, noise: str) -> None:
    places = {"dropout": noise, "input_dropout": noise, "branch_dropout": noise}
    more = {"layers_per_block": 2, "skip": skip, "norm": norm, **places}
    mlp = MLP.of(Model.model_validate({**BASE, **more}), 4, 3, BUILT_IN)
    assert gradient_error(mlp, Mse(), *state(mlp), Draws(Streams(0, 3), 7)) <= TOLERANCE


def test_gradients_are_right_where_a_projection_follows_a_dropped_stem() -> None:
    model = {k: v for k, v in BASE.items() if k != "width"} | {"widths": [5, 4, 3, 3, 2], "dropout": 0.4}
    mlp = MLP.of(Model.model_validate({**model, "skip": "pre_activation"}), 4, 3, BUILT_IN)
    assert gradient_error(mlp, Mse(), *state(mlp), Draws(Streams(0, 3), 7)) <= TOLERANCE


def tree(**model: Any) -> dict[str, Any]:
    return {
        "question": "Does it drop?",
        "base": {
            "data": {"task": "moons", "samples": 40, "test": 20},
            "model": {"depth": 4, "width": 6, "skip": "identity", **model},
            "train": {
                "loss": "cross_entropy", "optimizer": "momentum", "lr": 0.05, "batch": 16, "steps": 20,
                "precision": "float64",
            },
        },
        "seeds": 1,
    }  # fmt: skip


NOISY = {"dropout": 0.3, "input_dropout": {"kind": "gaussian_noise"}, "branch_dropout": "stochastic_depth"}


@pytest.mark.parametrize("skip", ["identity", "add_then_activate", "pre_activation"])
def test_torch_and_reference_drop_the_same_numbers(skip: str) -> None:
    setup = prepare(gradlab.plan(tree(**NOISY, skip=skip)).trials[0])
    ours, theirs = Torch().train(setup), Reference().train(setup)
    np.testing.assert_allclose(ours.theta, theirs.theta, rtol=1e-9, atol=1e-12)
    assert ours.metrics["test_loss"] == pytest.approx(theirs.metrics["test_loss"], rel=1e-9)


def test_dropout_is_pytorchs_given_the_same_mask() -> None:
    u = np.random.default_rng(0).random((50, 8))
    scale, shift = Dropout(rate=0.25).affine(u, 1.0)
    assert shift == 0.0
    x = torch.ones(4000, 8, dtype=torch.float64)
    torch.manual_seed(0)
    theirs = torch.nn.functional.dropout(x, 0.25, training=True)
    assert set(np.unique(scale)) == set(np.unique(theirs.numpy()))


def test_alpha_dropout_keeps_mean_and_variance_and_pytorchs_values() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, 50))
    scale, shift = AlphaDropout(rate=0.2).affine(rng.random(x.shape), 1.0)
    y = scale * x + shift
    assert abs(y.mean()) < 0.01
    assert abs(y.var() - 1) < 0.02
    theirs = torch.nn.functional.alpha_dropout(torch.zeros(4000, dtype=torch.float64), 0.2, training=True)
    ours = np.unique(AlphaDropout(rate=0.2).affine(np.array([0.1, 0.9]), 1.0)[1])
    np.testing.assert_allclose(ours, np.unique(theirs.numpy()), rtol=1e-6)


def test_stochastic_depth_drops_later_blocks_more_often() -> None:
    u = np.linspace(0.001, 0.999, 999)[:, None]
    early, late = ((StochasticDepth(rate=0.5).affine(u, along)[0] == 0).mean() for along in (0.2, 1.0))
    assert early == pytest.approx(0.1, abs=0.01)
    assert late == pytest.approx(0.5, abs=0.01)


def test_noise_changes_no_other_draw_and_arms_share_masks() -> None:
    plain, noisy = (prepare(gradlab.plan(tree(**more)).trials[0]) for more in ({}, NOISY))
    np.testing.assert_array_equal(plain.theta, noisy.theta)
    np.testing.assert_array_equal(plain.order(1), noisy.order(1))
    first, second = (
        Draws(Streams(0, 1), 3).affine(Dropout(rate=rate), "hidden", 2, 1.0, 9, 5, float)[0] for rate in (0.2, 0.6)
    )
    assert ((second > 0) <= (first > 0)).all()


def test_a_rate_of_zero_is_no_dropout_and_leaves_the_id_as_it_was() -> None:
    ids = [gradlab.plan(tree(**more)).trials[0].id for more in ({}, {"dropout": 0}, {"dropout": 0.1})]
    assert ids[0] == ids[1] != ids[2]


def test_the_fused_engine_refuses_noise_and_auto_takes_the_reference() -> None:
    config = gradlab.plan(tree(dropout=0.5)).groups[0].config
    assert Fused().refusal(config, BUILT_IN) is not None
    assert isinstance(Auto().choose(config, BUILT_IN)[0], Reference)


def test_whole_branches_are_dropped_only_beside_a_skip() -> None:
    for more in ({"skip": "none", "branch_dropout": "stochastic_depth"}, {"dropout": "stochastic_depth"}):
        with pytest.raises(StudyError, match="skip"):
            gradlab.plan(tree(**more))


def test_the_audit_sees_dropout_and_declares_it_as_the_factor() -> None:
    study = {**tree(), "factor": "model.dropout", "arms": {"plain": {}, "dropped": {"model.dropout": 0.5}}, "seeds": 3}
    assert gradlab.audit(study).passed
    hidden = study | {
        "factor": "model.width",
        "arms": {"plain": {}, "dropped": {"model.dropout": 0.5, "model.width": 7}},
    }
    assert not gradlab.audit(hidden).passed


def test_layers_are_measured_without_noise() -> None:
    numbers = []
    for more in ({}, NOISY):
        setup = prepare(gradlab.plan(tree(**more)).trials[0])
        table = Reference().train(setup).layers
        numbers.append(table.value[table.step == 0])
    np.testing.assert_array_equal(*numbers)


def test_theory_predicts_the_layers_and_not_the_loss_of_a_noisy_network() -> None:
    plain, noisy = (next(iter(gradlab.predict(tree(**more)).groups.values())) for more in ({}, {"dropout": 0.5}))
    assert np.isnan(noisy.loss.center)
    assert noisy.forecast("delta_l2", 1) == plain.forecast("delta_l2", 1)

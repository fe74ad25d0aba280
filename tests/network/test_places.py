"""Stem and head with an init of their own, biases with a distribution, and a scaled output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.engines.fused import Fused
from gradlab.engines.reference import Reference
from gradlab.engines.torch import Torch
from gradlab.network.losses import Mse
from gradlab.network.mlp import MLP
from gradlab.parts import BUILT_IN
from gradlab.spec.config import Model
from gradlab.testing.base import TOLERANCE, gradient_error
from gradlab.trials.setup import Setup, prepare


def tree(**model: Any) -> dict[str, Any]:
    return {
        "question": "Does it start so?",
        "base": {
            "data": {"task": "random_regression", "dim": 30, "samples": 24, "test": 8},
            "model": {"depth": 3, "width": 40, "init": "he_normal", **model},
            "train": {"loss": "mse", "optimizer": "adam", "lr": 0.01, "batch": 8, "steps": 10, "precision": "float64"},
        },
        "seeds": 1,
    }


def setup_of(**model: Any) -> Setup:
    return prepare(gradlab.plan(tree(**model)).trials[0])


def start_of(**model: Any) -> dict[str, Any]:
    setup = setup_of(**model)
    return setup.mlp.layout.named(setup.theta)


def test_stem_and_head_have_a_scale_kind_and_bias_of_their_own_and_the_rest_is_as_above() -> None:
    plain = start_of(init="he_normal")
    other = start_of(init={"kind": "he_normal", "stem": {"scale": 2}, "head": {"kind": "zeros", "bias": 0.5}})
    np.testing.assert_allclose(other["layer1.weight"], 2 * plain["layer1.weight"])
    np.testing.assert_array_equal(other["layer2.weight"], plain["layer2.weight"])
    assert not other["layer4.weight"].any()
    assert (other["layer4.bias"] == 0.5).all()
    assert not other["layer3.bias"].any()


def test_a_place_that_names_no_kind_keeps_kind_parameters_scale_and_bias() -> None:
    init = {"kind": "uniform", "a": 0.1, "scale": 3, "bias": "same"}
    plain, other = start_of(init=init), start_of(init={**init, "head": {"bias": "zeros"}})
    np.testing.assert_array_equal(plain["layer4.weight"], other["layer4.weight"])
    assert not other["layer4.bias"].any()
    assert plain["layer4.bias"].any()


def test_biases_come_from_a_distribution_or_are_a_number() -> None:
    drawn = start_of(init={"kind": "he_normal", "bias": {"kind": "uniform", "a": 0.25}})["layer2.bias"]
    assert 0.2 < np.abs(drawn).max() <= 0.25
    assert (start_of(init={"kind": "he_normal", "bias": 0.1})["layer2.bias"] == 0.1).all()


def test_theory_follows_the_init_of_stem_and_head() -> None:
    plain, other = (
        next(iter(gradlab.predict(tree(depth=6, width=64, init=init)).groups.values()))
        for init in ("he_normal", {"kind": "he_normal", "head": {"scale": 3}})
    )
    ratio = other.forecast("delta_l2", 2).center / plain.forecast("delta_l2", 2).center
    assert ratio > 2


def test_theory_simulates_where_biases_do_not_have_mean_0() -> None:
    found = next(iter(gradlab.predict(tree(init={"kind": "he_normal", "bias": 0.1})).groups.values()))
    assert found.forecast("delta_l2", 2).kind == "simulated"


@pytest.mark.parametrize(("scale", "factor"), [(0.25, 0.25), ("1/width", 1 / 40), ("1/sqrt(width)", 40**-0.5)])
def test_the_output_scale_multiplies_what_the_head_computes(scale: Any, factor: float) -> None:
    plain, scaled = setup_of(bias=False, depth=1), setup_of(bias=False, depth=1, output_scale=scale)
    x = plain.probe_x
    outputs = [
        s.mlp.forward(s.mlp.layout.windows(s.theta), x, s.mlp.initial_running(float))[0] for s in (plain, scaled)
    ]
    np.testing.assert_allclose(outputs[1], factor * outputs[0])
    assert {slot.name for slot in scaled.mlp.layout.slots} == {"layer1.weight", "layer2.weight"}


@pytest.mark.parametrize("head_activation", ["identity", "tanh"])
def test_gradients_with_an_output_scale_are_right_and_torchs(head_activation: str) -> None:
    model = {"depth": 3, "width": 5, "activation": "tanh", "output_scale": 0.3, "head_activation": head_activation}
    mlp = MLP.of(Model.model_validate(model), 4, 3, BUILT_IN)
    rng = np.random.default_rng(0)
    theta, x, y = (rng.standard_normal(shape) for shape in (mlp.layout.size, (6, 4), (6, 3)))
    assert gradient_error(mlp, Mse(), theta, x, y) <= TOLERANCE
    setup = setup_of(output_scale=0.3, head_activation=head_activation)
    np.testing.assert_allclose(Torch().train(setup).theta, Reference().train(setup).theta, rtol=1e-7, atol=1e-10)


def test_the_fused_engine_trains_places_and_refuses_an_output_scale() -> None:
    setup = setup_of(init={"kind": "he_normal", "head": {"scale": 0.1}})
    np.testing.assert_allclose(Fused().train(setup).theta, Reference().train(setup).theta, rtol=1e-8)
    assert Fused().refusal(setup_of(output_scale=2.0).trial.config, BUILT_IN)


def test_the_audit_names_a_scaled_output_and_another_head() -> None:
    for setting, value in (("model.output_scale", 0.1), ("model.init.head.scale", 0.1)):
        study = {**tree(), "seeds": 3, "arms": {"plain": {}, "other": {setting: value}}}
        assert gradlab.audit({**study, "factor": setting}).passed
        hidden = {"plain": {}, "other": {setting: value, "train.lr": 0.02}}
        assert not gradlab.audit({**study, "factor": "train.lr", "arms": hidden}).passed

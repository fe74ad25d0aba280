from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import gradlab
from gradlab.errors import StudyError
from gradlab.network.initial import initial_parameters
from gradlab.network.mlp import MLP
from gradlab.parts import BUILT_IN
from gradlab.spec.choice import InitChoice
from gradlab.spec.config import Model
from gradlab.streams import Streams
from gradlab.trials.setup import prepare

FAN_IN, FAN_OUT = 300, 200
VARIANCES = {
    "he_normal": 2 / FAN_IN,
    "he_uniform": 2 / FAN_IN,
    "xavier_normal": 2 / (FAN_IN + FAN_OUT),
    "xavier_uniform": 2 / (FAN_IN + FAN_OUT),
    "lecun_normal": 1 / FAN_IN,
    "torch_default": 1 / (3 * FAN_IN),
    "uniform": 0.25 / 3,
    "normal": 0.01**2,
    "lecun_uniform": 1 / FAN_IN,
    "fixup": 2 / FAN_IN,
    "lsuv": 1 / FAN_IN,
    "zeros": 0.0,
    "orthogonal": 1 / FAN_IN,
}
TORCH = {
    "he_normal": lambda w: torch.nn.init.kaiming_normal_(w, nonlinearity="relu"),
    "he_uniform": lambda w: torch.nn.init.kaiming_uniform_(w, nonlinearity="relu"),
    "xavier_normal": torch.nn.init.xavier_normal_,
    "xavier_uniform": torch.nn.init.xavier_uniform_,
    "torch_default": lambda w: torch.nn.init.kaiming_uniform_(w, a=math.sqrt(5)),
    "orthogonal": torch.nn.init.orthogonal_,
}


def drawn(kind: str) -> np.ndarray:
    u = Streams(0, 0).uniform("init", (FAN_IN, FAN_OUT), 1)
    weights: np.ndarray = BUILT_IN.make("init", kind, {}).weights(u)
    return weights


@pytest.mark.parametrize("kind", BUILT_IN.names("init"))
def test_variance_is_the_one_of_the_definition(kind: str) -> None:
    assert drawn(kind).var() == pytest.approx(VARIANCES[kind], rel=0.02)
    assert abs(drawn(kind).mean()) <= 4 * math.sqrt(VARIANCES[kind] / (FAN_IN * FAN_OUT))


@pytest.mark.parametrize("kind", TORCH)
def test_distribution_is_the_one_torch_draws_from(kind: str) -> None:
    torch.manual_seed(0)
    theirs = TORCH[kind](torch.empty(FAN_OUT, FAN_IN)).numpy()
    quantiles = np.linspace(0.01, 0.99, 25)
    ours = np.quantile(drawn(kind), quantiles)
    np.testing.assert_allclose(ours, np.quantile(theirs, quantiles), atol=0.03 * theirs.std())
    if "uniform" in kind or kind == "torch_default":
        assert np.abs(drawn(kind)).max() == pytest.approx(np.abs(theirs).max(), rel=1e-3)


def test_orthogonal_has_unit_singular_values_in_both_shapes() -> None:
    for shape in ((30, 20), (20, 30)):
        w = BUILT_IN.make("init", "orthogonal", {}).weights(Streams(0, 0).uniform("init", shape, 1))
        np.testing.assert_allclose(np.linalg.svd(w, compute_uv=False), 1, rtol=1e-12)


def parameters(seed: int = 0, **fields: object) -> tuple[MLP, np.ndarray]:
    model = Model.model_validate({"depth": 3, "width": 8, **fields})
    mlp = MLP.of(model, 8, 4, BUILT_IN)
    return mlp, initial_parameters(mlp, model.init, Streams(0, seed), BUILT_IN)


def test_arms_with_the_same_seed_start_from_the_same_matrices() -> None:
    plain, theta = parameters(init="he_normal")
    residual, other = parameters(init="he_normal", skip="identity", norm="layer", bias=False)
    for name, weight in plain.layout.named(theta).items():
        if name.endswith("weight"):
            assert np.array_equal(weight, residual.layout.named(other)[name])


def test_a_deeper_arm_shares_the_layers_that_have_the_same_number_and_shape() -> None:
    shallow, theta = parameters(depth=3)
    deep, other = parameters(depth=6)
    for number in (1, 2, 3):
        a, b = (m.layout.named(t)[f"layer{number}.weight"] for m, t in ((shallow, theta), (deep, other)))
        assert np.array_equal(a, b)


def test_normal_and_uniform_inits_are_paired_through_the_inverse_cdf() -> None:
    mlp, he = parameters(init="he_normal")
    _, xavier = parameters(init="xavier_uniform")
    a, b = (mlp.layout.named(theta)["layer2.weight"].ravel() for theta in (he, xavier))
    assert (np.argsort(a) == np.argsort(b)).all()


def test_other_seeds_and_layers_are_different_draws() -> None:
    mlp, theta = parameters(0)
    _, other = parameters(1)
    named = mlp.layout.named(theta)
    assert not np.array_equal(theta, other)
    assert not np.array_equal(named["layer2.weight"], named["layer3.weight"])


def test_scale_multiplies_the_draw_and_can_spare_stem_and_head() -> None:
    mlp, plain = parameters(init="he_normal")
    _, scaled = parameters(init={"kind": "he_normal", "scale": "1/sqrt(depth)"})
    _, inner = parameters(init={"kind": "he_normal", "scale": "1/sqrt(depth)", "scale_on": "blocks"})
    for name, weight in mlp.layout.named(plain).items():
        if name.endswith("weight"):
            np.testing.assert_array_equal(mlp.layout.named(scaled)[name], weight * 3**-0.5)
            factor = 1 if name in ("layer1.weight", "layer4.weight") else 3**-0.5
            np.testing.assert_array_equal(mlp.layout.named(inner)[name], weight * factor)


def test_biases_start_at_zero_or_from_the_same_distribution() -> None:
    mlp, theta = parameters(init={"kind": "uniform", "a": 0.5, "bias": "same"})
    bias = mlp.layout.named(theta)["layer1.bias"]
    assert (np.abs(bias) <= 0.5).all()
    assert bias.std() > 0.1
    _, zero = parameters(init="uniform")
    assert (mlp.layout.named(zero)["layer1.bias"] == 0).all()


def test_gains_start_at_one_and_alpha_where_the_skip_says() -> None:
    mlp, theta = parameters(norm="layer", skip={"kind": "rezero", "start": 0.25})
    named = mlp.layout.named(theta)
    assert (named["layer2.gain"] == 1).all()
    assert (named["layer2.shift"] == 0).all()
    assert named["block1.alpha"] == 0.25


def test_bias_same_is_refused_for_an_orthogonal_init() -> None:
    choice = InitChoice.model_validate({"kind": "orthogonal", "bias": "same"})
    mlp = MLP.of(Model(depth=1, width=3), 3, 3, BUILT_IN)
    with pytest.raises(StudyError, match=r"init\.bias.*orthogonal.*zeros"):
        initial_parameters(mlp, choice, Streams(0, 0), BUILT_IN)


def test_fixup_scales_inner_layers_and_starts_blocks_and_head_at_0() -> None:
    mlp, fixup = parameters(init="fixup", depth=9, layers_per_block=2, skip="identity")
    _, he = parameters(init="he_normal", depth=9, layers_per_block=2, skip="identity")
    ours, plain = mlp.layout.named(fixup), mlp.layout.named(he)
    np.testing.assert_array_equal(ours["layer1.weight"], plain["layer1.weight"])
    np.testing.assert_allclose(ours["layer2.weight"], plain["layer2.weight"] * 4 ** (-1 / 2))
    assert not ours["layer3.weight"].any()
    assert not ours["layer10.weight"].any()


@pytest.mark.parametrize("skip", ["none", "identity", "pre_activation"])
def test_lsuv_gives_every_product_unit_variance_on_the_first_batch(skip: str) -> None:
    tree = {
        "question": "Is it unit?",
        "base": {
            "data": {"task": "identity", "dim": 12, "samples": 64},
            "model": {"depth": 5, "width": 20, "skip": skip, "init": "lsuv", "activation": "tanh"},
            "train": {"loss": "mse", "optimizer": "sgd", "lr": 0.1, "batch": 32, "steps": 3, "precision": "float64"},
        },
        "seeds": 1,
    }
    setup = prepare(gradlab.plan(tree).trials[0])
    p, x = setup.mlp.layout.windows(setup.theta), setup.first_batch()[0]
    _, tape = setup.mlp.forward(p, x, setup.mlp.initial_running(float))
    sizes = [float(np.std(record.x @ own.weight)) for record, own in zip(tape.records, p.layers, strict=True)]
    np.testing.assert_allclose(sizes, 1, rtol=1e-9)
    found = next(iter(gradlab.predict(tree).groups.values()))
    assert found.forecast("activation_std.pre", 3).kind == "simulated"
    assert found.forecast("activation_std.pre", 3).center == pytest.approx(1, rel=0.2)

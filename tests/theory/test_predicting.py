"""Predictions against drawn networks, and the numbers that built-in studies are known for."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from theory_draws import Checked, check, cover_pairs, initial_network

import gradlab
from gradlab.parts import Catalog
from gradlab.theory.predicting import predict_config, predict_groups
from gradlab.theory.prediction import from_json, to_json
from gradlab.trials.setup import prepare

CATALOG = Catalog()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADLAB_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def holding(found: list[Checked], kind: str) -> float:
    own = [one for one in found if one.kind == kind]
    assert own, kind
    return sum(one.passes for one in own) / len(own)


@pytest.mark.parametrize(
    "model",
    [
        {"activation": "relu", "init": {"kind": "he_normal"}},
        {"activation": "tanh", "init": {"kind": "lecun_normal"}},
        {"activation": "relu", "norm": "layer", "init": {"kind": "he_uniform"}},
        {"activation": "tanh", "skip": "identity", "init": {"kind": "xavier_normal"}},
    ],
    ids=["plain relu", "plain tanh", "layer norm", "residual tanh"],
)
def test_exact_predictions_lie_within_three_standard_errors_of_drawn_networks(model: dict) -> None:
    found = check(initial_network(64, 6, 8, **model), CATALOG, 1, draws=60)
    assert holding(found, "exact") >= 0.95
    assert holding(found, "order") == 1.0


def test_a_prediction_without_the_correction_for_the_width_would_fail_the_same_check() -> None:
    found = check(initial_network(32, 20, 1, init={"kind": "he_normal"}), CATALOG, 1, draws=80)
    first = next(one for one in found if (one.measure, one.layer) == ("activation_std.post", 20))
    assert first.passes
    assert first.drawn.center < 0.6  # the infinite-width value is about 1: the typical network is far below the mean


def test_the_band_holds_about_95_percent_of_drawn_networks() -> None:
    found = check(initial_network(32, 8, 8, init={"kind": "he_normal"}), CATALOG, 1, draws=120)
    own = [one.inside for one in found if one.measure in ("delta_l2", "activation_std.post")]
    assert 0.90 <= sum(own) / len(own) <= 0.985


def test_known_numbers_of_the_built_in_studies_come_without_a_run() -> None:
    plain = gradlab.predict("depth", groups=["depth=20, skip=none"])["depth=20, skip=none"]
    decay = plain.per_layer("delta_l2")
    assert decay == pytest.approx(2.53, abs=0.04)  # not √6 = 2.449
    fair = gradlab.predict("identity", groups=["plain"])["plain"]
    assert fair.per_layer("delta_l2") == pytest.approx(4.5, abs=0.06)
    assert fair.phase.word == "ordered"
    assert fair.phase.critical_scale == pytest.approx(20**0.5, rel=1e-6)


def test_the_mean_of_relu_adds_up_along_a_stream() -> None:
    config = initial_network(64, 12, 4, skip="identity", init={"kind": "he_normal"})
    sizes = [layer.second_moment for layer in predict_config(config, CATALOG, 1).layers[:-1]]
    assert sizes[-1] / sizes[-2] == pytest.approx(2.904, abs=0.01)  # not 2, as the textbook says


def test_what_theory_does_not_cover_is_simulated_and_says_why() -> None:
    config = initial_network(16, 4, 8, skip="add_then_activate", init={"kind": "he_normal"})
    found = predict_config(config, CATALOG, 1)
    assert {one.kind for one in found.forecasts["delta_l2"].values()} == {"simulated"}
    assert "not derived" in found.reasons[0]
    batch = predict_config(initial_network(16, 4, 8, norm="batch"), CATALOG, 1)
    assert "batch" in batch.reasons[0]


def test_a_network_that_starts_as_the_identity_has_no_gradient_in_its_branches() -> None:
    found = predict_config(initial_network(16, 5, 4, skip="rezero", activation="tanh"), CATALOG, 1)
    assert found.forecast("delta_l2", 3).center == 0
    assert found.forecast("delta_l2", 1).center > 0


def test_the_task_s_inputs_enter() -> None:
    small = initial_network(16, 4, 8).model_copy(
        update={"data": initial_network(16, 4, 8).data.model_copy(update={"pixels": "unit"})}
    )
    a, b = predict_config(initial_network(16, 4, 8), CATALOG, 1), predict_config(small, CATALOG, 1)
    assert a.inputs["second_moment"] > 5 * b.inputs["second_moment"]


def test_a_prediction_survives_the_cache_and_json() -> None:
    config = initial_network(16, 4, 8)
    found = predict_config(config, CATALOG, 1)
    assert from_json(to_json(found)) == found
    assert predict_groups({"a": config}, CATALOG, 1)["a"].forecasts == found.forecasts


def test_pairs_are_covered() -> None:
    axes = {"a": [1, 2, 3], "b": [1, 2], "c": [1, 2, 3]}
    rows = list(cover_pairs(axes))
    assert {(row["a"], row["c"]) for row in rows} == {(a, c) for a in axes["a"] for c in axes["c"]}
    assert len(rows) < 18


@pytest.mark.slow
def test_95_percent_of_all_layers_agree_over_a_pairwise_cover() -> None:
    axes = {
        "skip": ["none", "identity", "scaled", "pre_activation"],
        "activation": ["relu", "leaky_relu", "tanh", "gelu", "silu", "sigmoid"],
        "norm": ["none", "layer", "rms"],
        "init": [{"kind": "he_normal"}, {"kind": "torch_default", "bias": "same"}, {"kind": "xavier_uniform"}],
        "width": [64, 128],
    }
    found: list[Checked] = []
    for row in cover_pairs(axes):
        stem = {"stem_activation": False, "stem_norm": False} if row["skip"] == "pre_activation" else {}
        width = row.pop("width")
        found += check(initial_network(width, 10, 16, **row, **stem), CATALOG, 1, draws=60)
    assert holding(found, "exact") >= 0.95
    assert holding(found, "order") >= 0.95
    inside = [one.inside for one in found if one.kind == "exact" and one.measure == "delta_l2"]
    assert 0.92 <= sum(inside) / len(inside) <= 0.98


def test_the_spread_of_a_deep_narrow_network_is_the_known_one() -> None:
    config = initial_network(32, 30, 1, init={"kind": "he_normal"})
    own = predict_config(config, CATALOG, 1).forecast("activation_std.post", 30)
    assert own is not None
    assert 4 * own.spread**2 == pytest.approx(30 * 5 / 32, rel=0.1)  # κ Σ 1/n, and the spread of the inputs
    assert exp(log(own.center)) < 1


def test_the_band_of_the_initial_loss_holds_the_seeds_with_their_own_data() -> None:
    plan = gradlab.plan("identity", seeds=120)
    forecast = gradlab.predict(plan).groups["plain"].loss
    losses = []
    for trial in plan.trials:
        if trial.group == "plain":
            setup = prepare(trial)
            x, y = setup.first_batch()
            output, _ = setup.mlp.forward(setup.mlp.layout.windows(setup.theta), x, setup.mlp.initial_running(x.dtype))
            losses.append(setup.loss.value(output, y))
    low, high = (forecast.center * np.exp(sign * 1.96 * forecast.spread) for sign in (-1, 1))
    assert np.mean((low <= np.array(losses)) & (np.array(losses) <= high)) > 0.8
    assert high / low < 1.1

"""The audit finds every planted difference, names it, and raises no false alarm."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gradlab
from gradlab import api
from gradlab.audits.audit import MARK, UNDECLARED_CODE, Audit
from gradlab.audits.compare import UNDECLARED
from gradlab.audits.realize import Realize
from gradlab.audits.start import gain_of, start_of
from gradlab.audits.study import audit_plan
from gradlab.cli import app
from gradlab.probes import l2, rms
from gradlab.spec.yaml_text import dump
from gradlab.trials.setup import Setup, prepare
from gradlab.trials.trial import Trial
from gradlab.words import capital

RUNNER = CliRunner()


def audited(name: str, **options: Any) -> Audit:
    return audit_plan(gradlab.plan(name, **options), seeds=2)


# ---------------------------------------------------------------------- the write-ups


def test_the_unfair_identity_pair_differs_in_the_initial_weights_and_in_nothing_else() -> None:
    found = audited("identity-unfair")
    assert not found.fair
    assert [fact.subject for fact in found.facts if fact.code == UNDECLARED_CODE] == ["initial weights"]
    assert "0.2236 ×" in found.undeclared[0]
    assert [row.trait for row in found.rows if row.status == UNDECLARED] == ["initial weights"]


def test_the_fair_identity_pair_differs_by_x_plus_and_cannot_attribute_floor_and_gain() -> None:
    found = audited("identity")
    assert found.fair
    assert found.only_difference == "`x +`"
    floor, gain = found.facts[:2]
    assert (floor.code, floor.subject) == ("loss_floor", "plain")
    assert floor.numbers["floor"] == pytest.approx(0.1665, abs=0.005)
    assert (gain.code, gain.subject) == ("init_gain", "plain")
    assert gain.numbers["predicted"] == pytest.approx(20**-0.5, rel=0.02)
    assert gain.numbers["signal_per_layer"] == pytest.approx(gain.numbers["predicted"], rel=0.1)


def test_depth_is_fair_with_a_list_of_its_own() -> None:
    found = audited("depth")
    assert found.fair
    facts = {fact.code: fact for fact in found.facts}
    assert facts["init_gain"].numbers["delta_per_layer"] == pytest.approx(1 / 2.46, rel=0.1)
    assert facts["init_gain"].numbers["predicted"] == pytest.approx(0.409, rel=0.02)
    assert "after_training" in facts
    assert not {"loss_floor", "capacity", "unequal_updates"} & set(facts)


def test_the_published_batch_sweep_has_unequal_updates() -> None:
    found = audited("scaling-batch")
    assert found.fair
    assert found.facts[0].code == "unequal_updates"
    assert found.facts[0].numbers == {"fewest": 1000, "most": 904_000, "ratio": 904}
    assert found.suggestion is not None
    assert found.suggestion["base"]["train"]["steps"] == 1000
    assert "epochs" not in found.suggestion["base"]["train"]


OFTEN = (
    "identity",
    "identity-unfair",
    "depth-tuned",
    "scaling-width",
    "batch-norm-explodes",
    "recipe",
    "gradflow-controlled",
)


@pytest.mark.parametrize(
    "name",
    [name if name in OFTEN else pytest.param(name, marks=pytest.mark.thorough) for name in gradlab.list_studies()],
)
def test_every_built_in_study_passes_but_the_one_that_is_there_to_fail(name: str) -> None:
    found = audit_plan(gradlab.plan(name, quick=True), seeds=1, pairs=4)
    assert found.fair == (name != "identity-unfair")


# ---------------------------------------------------------------------- planted differences


def planted(tree: dict[str, Any], change: dict[str, Any]) -> Audit:
    """The residual arm gets something that nobody declared."""
    arms = {"plain": {}, "residual": {"model.skip": "identity", **change}}
    return api.audit({**tree, "arms": arms})


def traits(found: Audit) -> set[str]:
    return {row.trait for row in found.rows if row.status == UNDECLARED}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"model.init": {"kind": "torch_default", "bias": "same"}}, {"initial weights", "initial biases"}),
        ({"model.init.scale": 0.5}, {"initial weights"}),
        ({"train.schedule": "cosine"}, {"learning rate of every step"}),
        ({"train.warmup": 5}, {"learning rate of every step"}),
        ({"train.lr": 0.02}, {"learning rate of every step"}),
        ({"model.last_activation": False}, {"end of the network"}),
        ({"train.precision": "float32"}, {"precision"}),
        ({"train.optimizer": {"kind": "adam", "weight_decay": 0.1}}, {"optimizer"}),
        ({"train.optimizer": "sgd"}, {"optimizer"}),
        (
            {"model.norm": "layer"},
            {"normalization", "parameters", "parameter shapes", "initial norm gains", "initial norm shifts"},
        ),
        ({"train.clip": 1.0}, {"largest gradient norm"}),
        ({"train.batch": 16}, {"batch size", "samples seen", "FLOPs per step"}),
        ({"train.steps": 40}, {"updates", "samples seen"}),
        ({"model.activation": "tanh"}, {"activation", "forward pass of a block", "end of the network"}),
        ({"train.engine": "reference"}, {"engine"}),
        ({"data.samples": 33}, {"train data", "order of samples", "samples seen", "probe batch"}),
    ],
)
def test_a_planted_difference_of_configuration_is_found_and_named(
    tree: dict[str, Any], change: dict[str, Any], expected: set[str]
) -> None:
    found = planted(tree, change)
    assert not found.fair
    assert traits(found) == expected


def tampering(arm: str, change: Callable[[Setup], Setup]) -> Realize:
    """What an arm really gets differs from what its configuration says."""

    def realize(trial: Trial) -> Setup:
        setup = prepare(trial)
        return change(setup) if trial.group == arm else setup

    return realize


def one_layer_scaled(setup: Setup) -> Setup:
    theta = setup.theta.copy()
    setup.mlp.layout.windows(theta).layers[1].weight[:] *= 0.5
    return replace(setup, theta=theta)


def one_weight_nudged(setup: Setup) -> Setup:
    theta = setup.theta.copy()
    theta[5] = np.nextafter(theta[5], np.inf)
    return replace(setup, theta=theta)


def other_test_set(setup: Setup) -> Setup:
    rows = setup.dataset.train
    return replace(setup, dataset=replace(setup.dataset, test=rows[:4]))


def one_target_changed(setup: Setup) -> Setup:
    targets = setup.dataset.targets.copy()
    targets[3] += 1e-9
    return replace(setup, dataset=replace(setup.dataset, targets=targets))


def one_rate_changed(setup: Setup) -> Setup:
    rates = setup.rates.copy()
    rates[7] *= 1.0001
    return replace(setup, rates=rates)


class Swapped(Setup):
    """Two batches of the second epoch change places."""

    def order(self, epoch: int) -> Any:
        rows = super().order(epoch).copy()
        if epoch == 1:
            rows[:8], rows[8:16] = rows[8:16].copy(), rows[:8].copy()
        return rows


def one_batch_swapped(setup: Setup) -> Setup:
    return Swapped(**vars(setup))


@pytest.mark.parametrize("arm", ["plain", "residual"])
@pytest.mark.parametrize(
    ("change", "trait"),
    [
        (one_layer_scaled, "initial weights"),
        (one_weight_nudged, "initial weights"),
        (other_test_set, "test data"),
        (one_target_changed, "train data"),
        (one_rate_changed, "learning rate of every step"),
        (one_batch_swapped, "order of samples"),
    ],
)
def test_a_difference_that_no_configuration_shows_is_found_in_either_arm(
    tree: dict[str, Any], change: Callable[[Setup], Setup], trait: str, arm: str
) -> None:
    found = audit_plan(gradlab.plan(tree), realize=tampering(arm, change))
    assert not found.fair
    assert traits(found) | {words.split(":")[0] for words in found.undeclared} == {trait}
    if change is one_layer_scaled:
        assert "in layer2.weight" in found.undeclared[0]
        assert ("0.5 ×" if arm == "residual" else "2 ×") in found.undeclared[0]


def test_consequences_that_go_further_than_declared_fail(tree: dict[str, Any]) -> None:
    rezero = {"plain": {}, "residual": {"model.skip": "rezero"}}
    assert api.audit({**tree, "arms": rezero}).fair
    strict = api.audit({**tree, "arms": rezero, "consequences": {"parameters": "equal"}})
    assert strict.undeclared == ("parameters: 60 in plain, 63 in residual (declared: equal)",)
    assert api.audit({**tree, "arms": rezero, "consequences": {"parameters": 0.06}}).fair
    steps = {**tree, "factor": "train.steps", "arms": {"short": {}, "long": {"train.steps": 30}}}
    assert api.audit(steps).fair
    assert not api.audit({**steps, "consequences": {"updates": 0.1}}).fair


def test_arms_without_a_declared_factor_are_not_controlled(tree: dict[str, Any]) -> None:
    found = api.audit({**tree, "factor": []})
    assert not found.fair
    assert found.factor == ()


def test_axes_are_a_factor_of_their_own_and_undeclared_axes_separate_classes(tree: dict[str, Any]) -> None:
    axes = {"model.depth": [2, 3], "train.lr": [0.01, 0.1]}
    everything = api.audit({**tree, "arms": None, "axes": axes, "factor": []})
    assert everything.fair
    assert everything.factor == ("model.depth", "train.lr")
    assert everything.compared.startswith("3 pairs")
    one = api.audit({**tree, "arms": None, "axes": axes, "factor": "train.lr"})
    assert one.fair
    assert one.compared.startswith("2 pairs")


def test_one_group_has_nothing_to_be_compared_with(tree: dict[str, Any]) -> None:
    found = api.audit({**tree, "arms": None})
    assert found.fair
    assert "one group" in found.answer


# ---------------------------------------------------------------------- no false alarm

FACTORS: dict[str, list[Any]] = {
    "model.skip": ["none", "identity", "scaled", "rezero", "pre_activation", "add_then_activate"],
    "model.activation": ["relu", "tanh", "gelu", "sigmoid", {"kind": "leaky_relu", "negative_slope": 0.2}],
    "model.norm": ["none", "layer", "batch", "rms"],
    "model.init": [
        "he_normal",
        "xavier_uniform",
        {"kind": "orthogonal", "bias": "zeros"},
        {"kind": "uniform", "a": 0.3, "bias": "same"},
    ],
    "model.init.scale": [1, 0.3, "1/sqrt(depth)"],
    "model.depth": [1, 2, 3, 5],
    "model.last_activation": [True, False],
    "model.bias": [True, False],
    "train.optimizer": ["sgd", "adam", {"kind": "adam", "weight_decay": 0.1}],
    "train.lr": [0.1, 0.01, 1e-4],
    "train.schedule": ["fixed", "cosine", "step", "exponential"],
    "train.batch": [1, 4, 8, 32, "full"],
    "train.steps": [0, 1, 7, 20],
    "train.precision": ["float32", "float64"],
    "train.clip": [None, 1.0],
    "data.samples": [8, 16, 33],
}


def random_fair_study(number: int) -> dict[str, Any]:
    """Arms that differ in what is declared, over a random base."""
    rng = np.random.default_rng(number)
    paths = list(FACTORS)
    factor = [str(path) for path in rng.choice(paths, rng.integers(1, 3), replace=False)]
    if {"model.init", "model.init.scale"} <= set(factor):
        factor.remove("model.init.scale")

    def pick(path: str) -> Any:
        return FACTORS[path][rng.integers(len(FACTORS[path]))]

    base: dict[str, Any] = {
        "data": {"task": "identity", "dim": 3, "samples": pick("data.samples")},
        "model": {"depth": 3, "width": 3, "stem": "none", "head": str(rng.choice(["linear", "none"]))},
        "train": {"loss": "mse", "lr": 0.01, "steps": 5},
    }
    base["train"] |= {"optimizer": pick("train.optimizer"), "batch": pick("train.batch")}
    for path in ("model.skip", "model.activation", "model.norm", "model.init"):
        base["model"][path.split(".")[1]] = pick(path)
    arms = {f"arm{index}": {path: pick(path) for path in factor} for index in range(rng.integers(2, 4))}
    seeds = int(rng.integers(1, 4))
    return {"question": "Fair?", "factor": factor, "base": base, "arms": arms, "seeds": seeds, "seed": number}


@pytest.mark.parametrize("block", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 10))])
def test_five_hundred_random_fair_studies_raise_no_alarm(block: int) -> None:
    for number in range(50 * block, 50 * block + 50):
        found = api.audit(random_fair_study(number))
        assert found.fair, (number, found.answer)


# ---------------------------------------------------------------------- answers that go on


@pytest.mark.shipped
def test_what_it_proposes_can_be_run(tmp_path: Path) -> None:
    proposed = 0
    for name in gradlab.list_studies():
        found = audit_plan(gradlab.plan(name), seeds=1, pairs=2)
        if found.suggestion is not None:
            path = tmp_path / f"{name}.yaml"
            path.write_text(dump(found.suggestion))
            again = gradlab.plan(path)
            assert len(again.groups) >= 2
            proposed += 1
    assert proposed >= 8


def test_for_identity_it_proposes_the_controlled_design() -> None:
    suggestion = audited("identity").suggestion
    assert suggestion is not None
    controlled = gradlab.load("identity-controlled").study
    assert set(suggestion["factor"]) == set(controlled.factor)
    assert suggestion["axes"]["model.last_activation"] == [True, False]
    assert suggestion["axes"]["model.init.scale"] == [1.0, "1/sqrt(depth)"]


def test_several_factors_at_once_are_said_to_be_inseparable(tree: dict[str, Any]) -> None:
    both = {"plain": {}, "residual": {"model.skip": "identity", "train.lr": 0.1}}
    found = api.audit({**tree, "arms": both, "factor": ["model.skip", "train.lr"]})
    assert found.fair
    assert "several_factors" in {fact.code for fact in found.facts}
    apart = {**both, "slow": {"train.lr": 0.1}, "skip": {"model.skip": "identity"}}
    found = api.audit({**tree, "arms": apart, "factor": ["model.skip", "train.lr"]})
    assert "several_factors" not in {fact.code for fact in found.facts}


def test_the_authors_own_limits_stand_beside(tree: dict[str, Any]) -> None:
    said = "Measured on a Monday."
    assert said in api.audit({**tree, "limits": [said]}).limits


def test_one_seed_is_said() -> None:
    assert "seeds" in {fact.code for fact in audited("identity", seeds=1).facts}


# ---------------------------------------------------------------------- command line and runs


def test_the_command_answers_twice_and_exits_with_3(tmp_path: Path) -> None:
    unfair = RUNNER.invoke(app(), ["audit", "identity-unfair", "--seeds", "2"])
    assert unfair.exit_code == 3
    assert "0.2236 ×" in unfair.stdout
    assert "DIFFERS, undeclared" in unfair.stdout
    fair = RUNNER.invoke(app(), ["audit", "identity", "--seeds", "2", "--suggest", str(tmp_path / "s.yaml")])
    assert fair.exit_code == 0
    assert "`x +`" in fair.stdout
    assert gradlab.plan(tmp_path / "s.yaml", seeds=1).groups
    data = json.loads(RUNNER.invoke(app(), ["audit", "identity", "--seeds", "2", "--json"]).stdout)
    assert data["same_setup_except_factor"] is True
    assert data["hashes"]["plain"]["initial weights"] == data["hashes"]["residual"]["initial weights"]
    assert len(data["cannot_attribute"]) >= 3


def test_a_run_of_an_unfair_study_happens_and_carries_the_mark(tree: dict[str, Any], tmp_path: Path) -> None:
    tree["arms"]["residual"]["model.init.scale"] = 0.5
    tree["figures"] = ["training_loss"]
    (tmp_path / "s.yaml").write_text(dump(tree))
    done = RUNNER.invoke(app(), ["run", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "run")])
    assert done.exit_code == 3
    assert "NOT A CONTROLLED COMPARISON" in done.stdout
    report = (tmp_path / "run/report.md").read_text()
    assert report.splitlines()[2].startswith(f"> **{capital(MARK)}.**")
    again = gradlab.open_run(tmp_path / "run")
    assert again.audit is not None
    assert not again.audit.fair
    assert all("NOT A CONTROLLED" in chart.warning for chart in again.charts.values())
    assert again.to_json()["audit"]["same_setup_except_factor"] is False


def test_a_run_without_an_audit_is_reported_without_one(tree: dict[str, Any], tmp_path: Path) -> None:
    gradlab.run({**tree, "figures": []}, out=tmp_path / "run")
    (tmp_path / "run/audit.json").unlink()
    assert gradlab.open_run(tmp_path / "run").audit is None
    assert RUNNER.invoke(app(), ["report", str(tmp_path / "run")]).exit_code == 0


def test_check_turns_an_unreproduced_claim_into_exit_code_4(tree: dict[str, Any], tmp_path: Path) -> None:
    claim = {"text": "t", "metric": "initial_loss", "arms": "plain", "op": "<", "value": 1e-9}
    (tmp_path / "s.yaml").write_text(dump({**tree, "claims": [claim], "seeds": 6, "figures": []}))
    command = ["run", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "run")]
    assert RUNNER.invoke(app(), command).exit_code == 0
    assert RUNNER.invoke(app(), [*command, "--check"]).exit_code == 4
    assert "1 refuted" in RUNNER.invoke(app(), command).stdout


# ---------------------------------------------------------------------- sizes below and above what squares can hold


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1.0, 1e160, 1e300])
def test_sizes_whose_squares_underflow_or_overflow_are_right(scale: float) -> None:
    values = np.array([3.0, 4.0]) * scale
    assert l2(values) == pytest.approx(5 * scale, rel=1e-14)
    assert rms(values) == pytest.approx(5 * scale / np.sqrt(2), rel=1e-14)
    assert l2(np.zeros(3)) == 0
    assert np.isnan(l2(np.array([1.0, np.nan])))
    assert l2(np.array([1.0, np.inf])) == np.inf


def test_a_gain_is_that_of_the_layers_however_small_the_sizes_get() -> None:
    found = gain_of([14.5**-layer for layer in range(200)])
    assert found is not None
    assert found.per_layer == pytest.approx(1 / 14.5)
    died = gain_of([1.0, 0.1, 0.01, 0.0, 0.0])
    assert died is not None
    assert (died.per_layer, died.in_all) == (pytest.approx(0.1), 0.0)
    assert died.vanishes
    at_once = gain_of([1.0, 0.0, 0.0])
    assert at_once is not None
    assert (at_once.per_layer, at_once.in_all) == (0.0, 0.0)
    burst = gain_of([1.0, 10.0, np.inf, np.nan])
    assert burst is not None
    assert (burst.per_layer, burst.in_all) == (pytest.approx(10), np.inf)


def test_the_deepest_network_of_the_identity_write_up_has_the_gain_of_its_init() -> None:
    plan = gradlab.plan("identity-depth", seeds=1)
    plain = next(
        trial for trial in plan.trials if trial.group == "depth=200, skip=none, norm=none, scale=1/sqrt(depth)"
    )
    start = start_of(prepare(plain))
    assert start.delta is not None
    assert 1 / start.delta.per_layer == pytest.approx(np.sqrt(200), rel=0.05)
    assert start.delta.in_all > 0


@pytest.mark.parametrize(("sizes", "per_layer"), [([1, 0, 0.5], 0), ([1, np.inf, 1], np.inf), ([1, 0.5, 0, 0.3], 0.5)])
def test_a_size_that_is_lost_at_once_falls_and_does_not_grow(sizes: list[float], per_layer: float) -> None:
    found = gain_of(sizes)
    assert found is not None
    assert found.per_layer == pytest.approx(per_layer)

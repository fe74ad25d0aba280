"""Factors that cover several settings pass, and the audit says that their effects cannot be told apart."""

from __future__ import annotations

from typing import Any

import pytest

import gradlab
from gradlab import api
from gradlab.audits.audit import Audit
from gradlab.audits.study import audit_plan
from gradlab.spec.paths import with_all
from gradlab.words import join

BASE: dict[str, Any] = {
    "data": {"task": "identity", "dim": 3, "samples": 16},
    "model": {"depth": 4, "width": 3, "init": "he_normal"},
    "train": {"loss": "mse", "optimizer": "adam", "lr": 0.01, "batch": 8, "steps": 6},
}


def audit_arms(factor: str | list[str], arms: dict[str, dict[str, Any]], **base: Any) -> Audit:
    changed = with_all(BASE, {path.replace("__", "."): value for path, value in base.items()})
    return api.audit({"question": "Fair?", "factor": factor, "base": changed, "arms": arms, "seeds": 2})


def bundled(found: Audit) -> list[str]:
    return [fact.words for fact in found.facts if fact.code == "several_factors"]


@pytest.mark.parametrize(
    ("factor", "arm", "settings"),
    [
        ("model", {"model.skip": "identity", "model.norm": "layer"}, "model.skip and model.norm"),
        ("model", {"model.depth": 6, "model.width": 4, "model.bias": False}, "model.depth, model.width and model.bias"),
        ("train", {"train.lr": 0.1, "train.batch": 4}, "train.lr and train.batch"),
        ("train", {"train.steps": None, "train.epochs": 3, "train.clip": 1.0}, "train.steps and train.clip"),
        ("data", {"data.samples": 17, "data.half_range": 2.0}, "data.samples and data.half_range"),
        (
            "train.optimizer",
            {"train.optimizer": {"kind": "adam", "beta1": 0.8, "epsilon": 1e-6}},
            "train.optimizer.beta1 and train.optimizer.epsilon",
        ),
        ("train.optimizer", {"train.optimizer": "adamw"}, "train.optimizer.kind and train.optimizer.weight_decay"),
        ("model.init", {"model.init": {"kind": "uniform", "bias": "same"}}, "model.init.kind and model.init.bias"),
        (
            "model.init",
            {"model.init": {"kind": "he_normal", "scale": 2.0, "bias": "same"}},
            "model.init.scale and model.init.bias",
        ),
    ],
)
def test_a_factor_that_covers_several_settings_lists_them(factor: str, arm: dict[str, Any], settings: str) -> None:
    found = audit_arms(factor, {"a": {}, "b": arm})
    assert found.fair
    assert found.only_difference is None
    (remark,) = bundled(found)
    assert f" {settings} " in remark


@pytest.mark.parametrize(
    ("factor", "arm"),
    [
        ("model", {"model.skip": "identity"}),
        ("train", {"train.lr": 0.1}),
        ("data", {"data.samples": 17}),
        ("train.optimizer", {"train.optimizer": "sgd"}),
        ("train.optimizer", {"train.optimizer": {"kind": "adam", "beta1": 0.8}}),
        ("model.init", {"model.init": "uniform"}),
        ("train", {"train.steps": None, "train.epochs": 3}),
        ("train.schedule", {"train.schedule": {"kind": "step", "every": 2, "gamma": 0.1}}),
    ],
)
def test_a_factor_of_which_one_setting_varies_is_the_only_difference(factor: str, arm: dict[str, Any]) -> None:
    found = audit_arms(factor, {"a": {}, "b": arm})
    assert found.fair
    assert found.only_difference is not None
    assert bundled(found) == []


def test_two_parts_are_one_difference_though_both_have_a_parameter_of_one_name() -> None:
    schedules = ["fixed", {"kind": "step", "gamma": 0.1}, {"kind": "exponential", "gamma": 0.9}]
    found = audit_arms("train.schedule", {str(n): {"train.schedule": each} for n, each in enumerate(schedules)})
    assert found.varied == ("train.schedule",)
    assert bundled(found) == []


def test_arms_that_change_each_setting_alone_tell_the_effects_apart() -> None:
    both = {"model.skip": "identity", "model.norm": "layer"}
    arms = {"a": {}, "b": both, "skip": {"model.skip": "identity"}, "norm": {"model.norm": "layer"}}
    assert bundled(audit_arms("model", arms)) == []
    assert len(bundled(audit_arms("model", {key: arms[key] for key in "ab"}))) == 1


def test_arms_are_compared_with_each_other_not_only_with_the_first() -> None:
    arms = {
        "uniform": {"model.init": {"kind": "uniform", "bias": "same"}},
        "xavier": {"model.init": "xavier_uniform"},
        "he": {"model.init": "he_normal"},
    }
    (remark,) = bundled(audit_arms("model.init", arms))
    assert join(["uniform", "xavier"]) in remark
    assert join(["model.init.kind", "model.init.bias"]) in remark


def test_a_scale_that_follows_the_depth_is_bundled_with_it() -> None:
    init = {"kind": "he_normal", "scale": "1/sqrt(depth)"}
    tree = {"question": "Fair?", "base": with_all(BASE, {"model.init": init}), "axes": {"model.depth": [4, 6]}}
    found = api.audit(tree)
    assert found.fair
    assert found.only_difference is None
    (remark,) = bundled(found)
    assert join(["model.depth", "model.init.scale (1/sqrt(depth))"]) in remark
    crossed = api.audit({**tree, "axes": {"model.depth": [4, 6], "model.init.scale": [1, "1/sqrt(depth)"]}})
    assert bundled(crossed) == []
    fixed = api.audit({**tree, "base": BASE})
    assert bundled(fixed) == []
    assert fixed.only_difference == "`model.depth` = 4 / 6"


def test_a_branch_scale_that_follows_the_depth_is_bundled_with_it() -> None:
    tree = {"question": "Fair?", "base": with_all(BASE, {"model.skip": "scaled"}), "axes": {"model.depth": [4, 6]}}
    (remark,) = bundled(api.audit(tree))
    assert join(["model.depth", "model.skip.scale (1/sqrt(depth))"]) in remark


def test_zipped_axes_are_bundled_also_beside_a_grid() -> None:
    tree = {
        "question": "Fair?",
        "base": BASE,
        "zip": {"model.depth": [4, 6], "train.lr": [0.01, 0.1]},
        "axes": {"model.skip": ["none", "identity"]},
    }
    (remark,) = bundled(api.audit(tree))
    assert join(["model.depth", "train.lr"]) in remark


def test_an_axis_whose_values_are_bundles_is_named_alone_in_a_grid() -> None:
    (remark,) = bundled(audit_plan(gradlab.plan("depth-controlled"), seeds=1, pairs=6))
    assert join(["model.init.kind", "model.init.bias"]) in remark


# ---------------------------------------------------------------------- nothing varies, one thing varies


def test_identical_arms_pass_and_nothing_varies() -> None:
    found = audit_arms("model.skip", {"a": {}, "b": {"model.skip": "none"}, "c": {"train.engine": "fused"}})
    assert found.fair
    assert found.identical
    assert (found.facts[0].code, found.facts[0].numbers) == ("nothing_varies", {"groups": 3})
    twins = audit_arms("model.skip", {"a": {}, "b": {"model.skip": "identity"}, "c": {"model.skip": "identity"}})
    assert not twins.identical
    assert (twins.facts[0].code, twins.facts[0].subject) == ("nothing_varies", "b")


def test_five_skips_are_all_named() -> None:
    skips = ["none", "identity", "scaled", "rezero", "add_then_activate"]
    found = audit_arms("model.skip", {skip: {"model.skip": skip} for skip in skips})
    assert found.only_difference is not None
    for formula in ("`x ← relu(Wx + b)`", "`x ← x + relu(Wx + b)`", "0.5 relu", "α learned", "relu(Wx + b + x)"):
        assert formula in found.only_difference


def test_skips_that_differ_in_a_parameter_are_told_by_it() -> None:
    found = audit_arms(
        "model.skip",
        {name: {"model.skip": {"kind": "scaled", "scale": s}} for name, s in zip("ab", (1, 2), strict=True)},
    )
    assert found.only_difference == "`model.skip.scale` = 1.0 / 2.0"

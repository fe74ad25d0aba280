"""Studies: their fields, their errors, and their overrides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gradlab
from gradlab import studies
from gradlab.errors import StudyError
from gradlab.spec import files
from gradlab.spec.base import canonical_json, content_id
from gradlab.spec.paths import flatten, with_all


def changed(tree: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copy = dict(tree)
    if "." not in path:
        copy[path] = value
        return copy
    key, rest = path.split(".", 1)
    copy[key] = changed(copy[key], rest, value)
    return copy


def refusal(tree: dict[str, Any]) -> str:
    with pytest.raises(StudyError) as caught:
        gradlab.plan(tree)
    return str(caught.value)


REFUSALS = [
    ("base.model.depht", 3, ["base.model.depht", "unknown key 'depht'", "did you mean 'depth'?"]),
    ("base.model.depth", 0, ["base.model.depth", "must be at least 1", "not 0"]),
    ("base.model.depth", -5, ["base.model.depth", "not -5"]),
    ("base.model.depth", "three", ["base.model.depth", "a whole number was expected", "not 'three'"]),
    ("base.model.depth", 2.5, ["base.model.depth", "2.5"]),
    ("base.model.depth", True, ["base.model.depth: a whole number was expected, not true"]),
    ("base.model.depth", 10**7, ["base.model.depth: must be at most 10,000"]),
    (
        "base.model.activation",
        "rellu",
        ["base.model.activation", "'rellu' is not an activation", "did you mean 'relu'?"],
    ),
    ("base.model.activation", {"kind": "leaky_relu", "slope": 1}, ["unknown key 'slope'", "negative_slope"]),
    (
        "base.model.activation",
        {"slope": 1},
        ["base.model.activation.slope", "unknown key 'slope' of activation 'relu'"],
    ),
    ("base.train.optimizer", {"beta1": 1}, ["base.train.optimizer.kind", "missing"]),
    ("base.model.activation", 7, ["base.model.activation: the name of an activation was expected, not 7"]),
    ("base.model.init", {"kind": "uniform", "a": -1}, ["base.model.init.a", "must be above 0", "not -1"]),
    ("base.model.init", {"kind": "uniform", "scale": "1/depht"}, ["base.model.init.scale", "1/sqrt(depth)"]),
    (
        "base.model.stem",
        "linaer",
        ["base.model.stem", "linear or none was expected, not 'linaer'", "did you mean 'linear'?"],
    ),
    ("base.model.layers_per_block", 2, ["base.model.depth", "3", "blocks of 2"]),
    ("base.model.width", 10**6, ["model.width", "GiB"]),
    ("base.train.lr", 0, ["base.train.lr: must be above 0, not 0"]),
    ("base.train.lr", float("nan"), ["base.train.lr: a finite number was expected, not nan"]),
    ("base.train.lr", float("inf"), ["base.train.lr"]),
    ("base.train.batch", 0, ["base.train.batch", "not 0"]),
    ("base.train.batch", "half", ["base.train.batch: a whole number or full was expected, not 'half'"]),
    ("base.train.epochs", 3, ["base.train.steps", "either steps or epochs"]),
    ("base.train.steps", None, ["base.train.steps", "either steps or epochs"]),
    ("base.train.loss", "cross_entropy", ["train.loss", "'cross_entropy' compares with classes", "huber, mae or mse"]),
    (
        "base.train.optimizer",
        {"kind": "adam", "beta1": 1.5},
        ["base.train.optimizer.beta1", "must be below 1, not 1.5"],
    ),
    ("base.train.precision", "float16", ["base.train.precision", "float32"]),
    ("base.train.engine", "refrence", ["base.train.engine", "did you mean 'reference'?"]),
    ("base.data.task", "identiy", ["base.data.task", "did you mean 'identity'?"]),
    ("base.data.dim", 5, ["model.stem", "5", "4"]),
    ("base.data", {"dim": 3}, ["base.data.task", "missing"]),
    ("base.data", None, ["base.data"]),
    ("base.measure", {}, ["base.measure", "move it one level up"]),
    ("base", {}, ["3 problems", "base.data: missing", "base.model: missing", "base.train: missing"]),
    ("base", 3, ["base"]),
    ("arms", {}, ["arms: a study needs arms or axes"]),
    ("arms", {"a": {"modell.skip": "none"}}, ["arms.a.modell.skip", "did you mean 'model'?"]),
    ("arms", {"a": {"model.skip": "identiy"}}, ["arms.a.model.skip", "did you mean 'identity'?"]),
    ("arms", {"a": {"model.depth": 0}}, ["arms.a.model.depth", "not 0"]),
    ("arms", {"a": {"model.depth.x": 0}}, ["arms.a", "has nothing below it"]),
    ("arms", {"": {}}, ["arms", "must not be empty"]),
    ("arms", {"a\x07": {}}, ["arms"]),
    ("axes", {"model.skip": ["none", "identity"]}, ["arms.residual", "model.skip is an axis"]),
    ("seeds", 0, ["seeds: must be at least 1, not 0"]),
    ("seeds", [1, 1], ["seeds", "twice"]),
    ("seeds", [-1], ["seeds.1: must be at least 0, not -1"]),
    ("question", "", ["question"]),
    ("qestion", "?", ["qestion", "did you mean 'question'?"]),
    ("factor", "model.skipp", ["factor", "model.skipp"]),
    ("measure", {"layers": ["midway"]}, ["measure.layers.1", "midway"]),
    ("measure", {"layers": [99]}, ["measure.layers", "99", "20 steps"]),
    ("measure", {"probes": ["gradients"]}, ["measure.probes.1", "gradients"]),
    ("measure", {"probe": {"batch": "test"}}, ["measure.probe.batch", "'identity' has no test samples", "use train"]),
    ("measure", {"target": {"metric": "test_accuracy", "value": 0.9}}, ["measure.target.metric", "regression"]),
    ("figures", ["training_los"], ["figures.1", "did you mean 'training_loss'?"]),
    ("name", "../../etc", ["name: use at most 60 lowercase letters"]),
    ("headline", {"metric": "final_los"}, ["headline.metric", "did you mean 'final_loss'?"]),
    ("headline", {"metric": "grad_l2"}, ["headline.metric", "not a metric of a trial", "give at.layer"]),
    ("headline", {"metric": "final_loss", "at": {"layer": 1}}, ["headline.metric", "leave at.layer out"]),
    (
        "headline",
        {"metric": "grad_l2", "at": {"layer": "foo"}},
        ["headline.at.layer", "a whole number, last, smallest, largest or a list was expected, not 'foo'"],
    ),
    (
        "headline",
        {"metric": "grad_l2", "at": {"layer": 1, "step": "middle"}},
        ["headline.at.step: a whole number, start or end was expected"],
    ),
    ("headline", {"metric": "grad_l2", "at": {"layer": 99}}, ["headline.at.layer", "99", "3 layers"]),
    ("headline", {"metric": "grad_l2", "at": {"layer": 1, "step": 3}}, ["headline.at.step", "not measured"]),
    ("headline", {"metric": "grad_l2", "at": {"layer": [1, 2]}}, ["headline.at.layer", "single layer"]),
    ("headline", {"metric": "test_accuracy"}, ["headline.metric", "regression"]),
    ("headline", {"metric": "steps_to_target"}, ["headline.metric", "measure.target"]),
    (
        "published",
        [{"metric": "final_loss", "arms": "plan", "value": 1}],
        ["published.1.arms", "mean 'plain'?"],
    ),
    (
        "published",
        [{"metric": "grad_l2", "arms": "plain", "value": [1, 2], "at": {"layer": 1}}],
        ["2 values", "1 places"],
    ),
    ("quick", {"train.stps": 3}, ["quick", "stps", "did you mean 'steps'?"]),
]


@pytest.mark.parametrize(("path", "value", "expected"), REFUSALS, ids=[f"{p}={str(v)[:40]}" for p, v, _ in REFUSALS])
def test_an_error_names_path_value_and_what_is_accepted(
    path: str, value: Any, expected: list[str], tree: dict[str, Any]
) -> None:
    message = refusal(changed(tree, path, value))
    for words in expected:
        assert words in message


def test_every_built_in_study_loads_plans_and_has_a_quick_form() -> None:
    assert {"identity", "gradflow"} <= set(gradlab.list_studies())
    for name in gradlab.list_studies():
        full, quick = gradlab.plan(name), gradlab.plan(name, quick=True)
        assert full.resolved.study.name == name
        assert quick.flops <= full.flops
        assert len(quick.trials) < len(full.trials)


def test_a_study_without_arms_or_axes_is_one_group(tree: dict[str, Any]) -> None:
    del tree["arms"]
    assert [group.name for group in gradlab.load(tree).groups] == ["all"]


def test_axes_span_a_grid_in_their_order(tree: dict[str, Any]) -> None:
    del tree["arms"]
    tree["axes"] = {"model.depth": [1, 2], "model.skip": ["none", {"kind": "scaled", "scale": 0.5}]}
    groups = gradlab.load(tree).groups
    names = [
        "depth=1, skip=none",
        "depth=1, skip=scaled(scale=0.5)",
        "depth=2, skip=none",
        "depth=2, skip=scaled(scale=0.5)",
    ]
    assert [group.name for group in groups] == names
    assert groups[1].settings == {"model.depth": 1, "model.skip": {"kind": "scaled", "scale": 0.5}}
    assert groups[3].config.model.skip.parameters == {"scale": 0.5}


def test_a_resolved_group_states_every_field() -> None:
    config = gradlab.load("identity").groups[0].config.model_dump(mode="json")
    assert config["model"]["init"] == {
        "kind": "he_normal",
        "scale": "1/sqrt(depth)",
        "scale_on": "all",
        "bias": "zeros",
    }
    assert config["train"]["optimizer"] == {
        "kind": "adam", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0,
    }  # fmt: skip
    assert config["model"]["last_activation"] is True


def test_a_study_survives_a_yaml_round_trip(tmp_path: Path) -> None:
    for name in gradlab.list_studies():
        study = gradlab.load(name).study
        path = tmp_path / f"{name}.yaml"
        path.write_text(files.to_yaml(study))
        again = gradlab.load(path)
        assert again.study == study
        assert [g.config for g in again.groups] == [g.config for g in gradlab.load(name).groups]


@pytest.mark.parametrize("form", [["train.lr=3e-4"], {"train.lr": 3e-4}])
def test_overrides_apply_below_the_base(form: Any, tree: dict[str, Any]) -> None:
    assert {g.config.train.lr for g in gradlab.load(tree, overrides=form).groups} == {3e-4}


def test_overrides_reach_arms_axes_seeds_measure_and_part_parameters(tree: dict[str, Any]) -> None:
    loaded = gradlab.load(
        tree,
        overrides=[
            "arms.residual.model.skip=scaled",
            "seeds=4",
            "measure.probe.size=8",
            "train.optimizer.beta1=0.5",
            "data.samples=16",
        ],
    )
    plain, residual = loaded.groups
    assert residual.config.model.skip.name == "scaled"
    assert plain.config.model.skip.name == "none"
    assert len(loaded.study.trial_seeds) == 4
    assert plain.config.measure.probe.size == 8
    assert plain.config.train.optimizer.parameters["beta1"] == 0.5
    assert plain.config.data.parameters["samples"] == 16
    del tree["arms"]
    tree["axes"] = {"model.depth": [1, 2]}
    assert len(gradlab.load(tree, overrides=["axes.model.depth=[1, 2, 3]"]).groups) == 3


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.lr", "write it as path=value"),
        ("=3", "write it as path=value"),
        ("trian.lr=3", "did you mean 'train'?"),
        ("arms.other.model.skip=none", "its arms are plain, residual"),
        ("train.lr=[", "--set train.lr"),
        ("train.=1", "not a path"),
        ("train.lr.x=1", "nothing below"),
    ],
)
def test_overrides_that_cannot_be_applied_are_refused(override: str, words: str, tree: dict[str, Any]) -> None:
    with pytest.raises(StudyError) as caught:
        gradlab.load(tree, overrides=[override])
    assert words in str(caught.value)


def test_setting_what_an_axis_sweeps_is_refused(tree: dict[str, Any]) -> None:
    del tree["arms"]
    tree["axes"] = {"train.lr": [0.1, 0.2]}
    with pytest.raises(StudyError, match=r"the study sweeps train.lr; set axes\.train\.lr"):
        gradlab.load(tree, overrides=["train.lr=1"])


def test_an_unknown_study_is_named_with_the_nearest_one() -> None:
    with pytest.raises(StudyError, match=r"no built-in study 'idenity'.*did you mean 'identity'\?"):
        studies.locate("idenity")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"- a\n- b", b"just words"])
def test_a_file_that_is_not_a_study_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(StudyError, match=r"x\.yaml"):
        gradlab.load(path)


def test_a_study_is_named_after_its_file_in_safe_characters(tmp_path: Path, tree: dict[str, Any]) -> None:
    assert files.name_from("My Study (v2)!") == "my-study-v2"
    assert files.name_from("../../..") == "study"
    assert [files.name_from(stem) for stem in ("微分", "étude", "E\u0301tude 2")] == ["微分", "étude", "étude-2"]


def test_paths_may_be_dotted_or_nested_and_a_part_is_one_value() -> None:
    nested = {"model": {"init": {"kind": "uniform", "a": 1}, "depth": 2}, "train.lr": 3}
    assert dict(flatten(nested)) == {"model.init": {"kind": "uniform", "a": 1}, "model.depth": 2, "train.lr": 3}
    base = {"model": {"init": {"kind": "he_normal", "scale": 2}}, "train": {"optimizer": "adam"}}
    assert with_all(base, {"model.init": "zeros"})["model"]["init"] == {"kind": "zeros", "scale": 2}
    explicit = {"model.init": {"kind": "uniform", "scale": 1}}
    assert with_all(base, explicit)["model"]["init"] == {"kind": "uniform", "scale": 1}
    assert with_all(base, {"train.optimizer.beta1": 0.5})["train"]["optimizer"] == {"kind": "adam", "beta1": 0.5}
    assert base["train"]["optimizer"] == "adam"


def test_equal_values_have_equal_canonical_json() -> None:
    assert canonical_json({"b": 1.0, "a": [float("nan"), float("inf"), None]}) == '{"a":["nan","inf",null],"b":1.0}'
    assert content_id({"a": 1, "b": 2}) == content_id({"b": 2, "a": 1})
    assert content_id({"a": 1}) != content_id({"a": 2})


def test_grid_points_that_differ_in_a_parameter_are_different_groups(tree: dict[str, Any]) -> None:
    del tree["arms"]
    tree["axes"] = {"model.init": [{"kind": "uniform", "a": 0.5}, {"kind": "uniform", "a": 0.1}]}
    loaded = gradlab.load(tree)
    assert [group.name for group in loaded.groups] == ["init=uniform(a=0.5)", "init=uniform(a=0.1)"]
    result = gradlab.run(loaded)
    a, b = (result.measured.summary("initial_loss", group.name).mean for group in loaded.groups)
    assert a != b
    tree["axes"] = {"model.init": ["uniform", "uniform"]}
    with pytest.raises(StudyError, match="listed twice"):
        gradlab.load(tree)


def test_overriding_the_init_keeps_the_scale_of_the_study() -> None:
    for value in ("he_uniform", {"kind": "uniform", "a": 0.1}):
        init = gradlab.load("identity", overrides={"model.init": value}).groups[0].config.model.init
        assert init.scale == "1/sqrt(depth)"


def test_a_parameter_of_a_default_part_can_be_set_without_naming_it(tree: dict[str, Any]) -> None:
    del tree["base"]["model"]["init"]
    init = gradlab.load(tree, overrides={"model.init.scale": 2}).groups[0].config.model.init
    assert (init.name, init.scale) == ("torch_default", 2)


def test_a_factor_may_be_a_field_that_is_not_set(tree: dict[str, Any]) -> None:
    tree |= {"factor": "train.clip", "arms": {"free": {}, "clipped": {"train.clip": 1.0}}}
    assert gradlab.load(tree).study.factor == ("train.clip",)


def test_options_for_a_loaded_study_are_refused(tree: dict[str, Any]) -> None:
    loaded = gradlab.load(tree)
    with pytest.raises(StudyError, match="give them when loading"):
        gradlab.load(loaded, seeds=3)
    with pytest.raises(StudyError, match="give them when loading"):
        gradlab.run(gradlab.plan(tree), overrides={"train.lr": 1})


@pytest.mark.parametrize("name", ["x" * 300, "a\x00b", "x" * 300 + ".yaml"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(StudyError):
        gradlab.load(name)


@pytest.mark.parametrize(("axes", "arms"), [([1], None), (None, {"a": [1]})])
def test_overrides_of_broken_sections_are_refused(axes: Any, arms: Any, tree: dict[str, Any]) -> None:
    tree |= {"axes": axes, "arms": arms}
    with pytest.raises(StudyError):
        gradlab.load(tree, overrides=["axes.model.depth=[1]" if axes else "arms.a.model.depth=1"])


@pytest.mark.parametrize("options", [{"seeds": 2.5}, {"overrides": 5}, {"overrides": {3: 4}}, {"overrides": "x"}])
def test_invalid_options_from_python_are_refused(options: dict[str, Any], tree: dict[str, Any]) -> None:
    with pytest.raises(StudyError):
        gradlab.load(tree, **options)


@pytest.mark.parametrize(
    ("path", "value", "lines"), [("seeds", 0, 1), ("seeds", [-1], 1), ("base.train.batch", 0, 1), ("seeds", "x", 1)]
)
def test_one_mistake_is_one_line(path: str, value: Any, lines: int, tree: dict[str, Any]) -> None:
    assert len(refusal(changed(tree, path, value)).splitlines()) == lines


def test_the_built_in_studies_are_the_published_networks() -> None:
    """Parameters and updates as the write-ups state them."""
    groups = {name: {p.group.name: p for p in gradlab.plan(name).groups} for name in gradlab.list_studies()}
    depth = groups["depth"]["depth=30, skip=none"]
    assert depth.cost.parameters == (784 * 32 + 32) + 29 * (32 * 32 + 32) + (32 * 10 + 10)
    assert (depth.cost.layers, depth.cost.steps) == (31, 50 * 215)
    assert depth.cost.parameters == groups["depth"]["depth=30, skip=add_then_activate"].cost.parameters
    for name in ("identity", "identity-unfair", "identity-unscaled", "identity-branch-scaled", "identity-controlled"):
        assert {p.cost.parameters for p in groups[name].values()} == {83_200}
        assert {p.cost.steps for p in groups[name].values()} == {500}
    width = groups["scaling-width"]["width=256"]
    assert width.cost.parameters == (784 * 256 + 256) + (256 * 256 + 256) + (256 * 10 + 10)
    assert width.cost.steps == 500
    batches = groups["scaling-batch"]
    assert batches["batch=full"].cost.steps == 1000
    assert batches["batch=32"].cost.steps == 1000 * 904
    assert {p.cost.steps for p in groups["scaling-batch-controlled"].values()} == {5000}


def test_every_built_in_study_has_a_source_and_a_quick_form() -> None:
    for name in gradlab.list_studies():
        study = gradlab.load(name).study
        assert study.source
        assert study.question.endswith("?")
        full, quick = gradlab.plan(name), gradlab.plan(name, quick=True)
        assert quick.flops <= full.flops
        assert quick.flops < 1e12  # some seconds on any machine

"""Which fields of a configuration are parts is read off its models; no second list knows them."""

from __future__ import annotations

from gradlab.parts import BUILT_IN, HOMES
from gradlab.spec.config import BASE_SECTIONS
from gradlab.spec.naming import short
from gradlab.spec.paths import choices, flatten, label, naming_key, with_value


def test_every_choice_of_the_models_is_known_with_its_kind_of_part() -> None:
    assert {path: choice.part for path, choice in choices().items()} == {
        "data": "task",
        "model.activation": "activation",
        "model.dropout": "noise",
        "model.input_dropout": "noise",
        "model.branch_dropout": "noise",
        "model.skip": "skip",
        "model.norm": "norm",
        "model.head_activation": "activation",
        "model.projection": "init",
        "model.init": "init",
        "train.loss": "loss",
        "train.optimizer": "optimizer",
        "train.schedule": "schedule",
        "train.engine": "engine",
    }
    assert {choice.part for choice in choices().values()} <= set(HOMES)
    assert BASE_SECTIONS == ("data", "model", "train")


def test_what_a_choice_says_itself_stays_when_another_part_is_named() -> None:
    tree = {
        "model": {"init": {"kind": "uniform", "a": 0.1, "scale": 2}},
        "data": {"task": "mnist", "split": "per_trial"},
    }
    assert with_value(tree, "model.init", "zeros")["model"]["init"] == {"kind": "zeros", "scale": 2}
    assert with_value(tree, "data", "identity")["data"] == {"task": "identity", "split": "per_trial"}
    study = with_value({"base": tree}, "base.model.init", {"kind": "he_normal"})
    assert study["base"]["model"]["init"] == {"kind": "he_normal", "scale": 2}


def test_a_parts_short_form_makes_room_for_its_parameters() -> None:
    assert with_value({"data": "mnist"}, "data.train", 5) == {"data": {"task": "mnist", "train": 5}}
    found = with_value({"model": {"skip": "rezero"}}, "model.skip.start", 0.1)
    assert found == {"model": {"skip": {"kind": "rezero", "start": 0.1}}}


def test_a_parameter_called_kind_is_not_the_name_of_a_part() -> None:
    data = {"task": "file", "path": "x.csv", "kind": "regression"}
    assert naming_key(data) == "task"
    assert label(data) == "file(path=x.csv, kind=regression)"
    assert dict(flatten({"data": data})) == {"data": data}


def test_short_words_leave_out_what_is_the_default_of_the_part_or_of_the_choice() -> None:
    init = {
        "kind": "uniform",
        "scale": 2.0,
        "scale_on": "all",
        "bias": "zeros",
        "a": BUILT_IN.make("init", "uniform", {}).a,
    }
    assert short("model.init", init, BUILT_IN) == "uniform(scale=2.0)"
    assert short("model.skip", {"kind": "highway", "bias_start": -2.0}, BUILT_IN) == "highway"
    assert short("model.skip", {"kind": "highway", "bias_start": -1.0}, BUILT_IN) == "highway(bias_start=-1.0)"
    assert short("data", {"task": "identity", "split": "per_study", "dim": 9}, BUILT_IN) == "identity(dim=9)"
    assert short("train.lr", 0.1, BUILT_IN) == "0.1"

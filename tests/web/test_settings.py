"""What a page can set, and the study that it stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gradlab
from gradlab.errors import InvalidInput
from gradlab.report.look import DARK_HUES, HUES
from gradlab.web.app import STATIC, offer_choices, save_study, write_study
from gradlab.web.frames import audit_page
from gradlab.web.settings import PARAMETERS, PATHS, TASKS, Refused, Settings, name_arms, plan_settings, read_settings
from gradlab.web.uploads import Uploads

SMALL = {"depth": 3, "width": 8}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_gives_a_study_of_two_arms_and_one_seed(task: str, uploads: Uploads) -> None:
    settings = read_settings({"task": task, "seed": 7, "steps": 3, "a": SMALL, "b": {**SMALL, "skip": "identity"}})
    plan = plan_settings(settings, uploads)
    assert [(trial.group, trial.seed, trial.root) for trial in plan.trials] == [("A", 7, 0), ("B", 7, 0)]
    assert plan.groups[0].cost.steps == 3
    assert name_arms(settings, plan) == ("no skip", "skip")


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        ({"init": "xavier_normal"}, {"init": "he_normal"}, ("Xavier init (normal)", "He init")),
        ({"lr": 0.1, "depth": 4}, {"lr": 1.0}, ("4 layers, learning rate 0.1", "3 layers, learning rate 1")),
        ({"skip": "rezero"}, {"skip": "highway"}, ("ReZero skip", "highway skip")),
        ({"scale": 2}, {"scale": "1/sqrt(depth)"}, ("init scale 2", "init scale 1/√depth")),
        ({}, {}, ("the same", "the same")),
    ],
)
def test_networks_are_named_by_what_sets_them_apart(a: Any, b: Any, names: tuple[str, str], uploads: Uploads) -> None:
    settings = read_settings({"task": "xor", "steps": 2, "a": {**SMALL, **a}, "b": {**SMALL, **b}})
    assert name_arms(settings, plan_settings(settings, uploads)) == names


def test_every_choice_of_the_page_can_be_planned(uploads: Uploads) -> None:
    offered = offer_choices()
    for kind, parts in offered["parts"].items():
        for part in parts:
            arm = {**SMALL, kind: part["name"]}
            plan_settings(read_settings({"task": "xor", "steps": 2, "a": arm, "b": arm}), uploads)
    for scale in offered["scales"]:
        value = scale["value"] if "/" in scale["value"] else float(scale["value"])
        assert read_settings({"a": {"scale": value}}).a.scale == value
    assert [field["name"] for field in offered["fields"]] == list(PATHS)
    assert Settings.model_validate(offered["defaults"]) == Settings()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"task": "mnst"}, "did you mean 'mnist'?"),
        ({"a": {"depth": 101}}, "the depth of A must be at most 100, not 101"),
        ({"a": {"depth": 2.5}}, "a whole number"),
        ({"b": {"lr": -1}}, "the learning rate of B must be above 0, not -1"),
        ({"b": {"lr": float("nan")}}, "the learning rate of B"),
        ({"steps": 10**9}, "the steps must be at most 100,000"),
        ({"seed": -1}, "the seed must be at least 0, not -1"),
        ({"a": {"skipp": "x"}}, "did you mean 'skip'?"),
        ({"a": {"skip": "idenity"}}, "did you mean 'identity'?"),
        ({"a": {"scale": "huge"}}, "scale"),
        ({"factor": "luck"}, "factor"),
        ({"task": "upload"}, "choose a file first"),
        ({"task": "upload", "upload": "../../etc/passwd"}, "upload"),
        ({"task": "upload", "upload": "0" * 16}, "choose it again"),
        ([], "an object"),
    ],
)
def test_a_wrong_setting_is_answered_with_a_sentence(raw: Any, words: str, uploads: Uploads) -> None:
    with pytest.raises(InvalidInput) as refused:
        plan_settings(read_settings(raw), uploads)
    assert words in str(refused.value)


def test_too_large_a_network_is_refused_with_a_sentence(uploads: Uploads) -> None:
    large = {"width": 512, "depth": 30}
    with pytest.raises(
        Refused, match=rf"network A would have [\d,]+ parameters, and the page trains at most {PARAMETERS:,}"
    ):
        plan_settings(read_settings({"a": large, "b": large}), uploads)
    with pytest.raises(Refused, match="GiB are left for them"):
        plan_settings(read_settings({}), uploads, others=2**40)


def test_the_identity_has_no_stem_at_width_64_as_in_the_study_of_that_name(uploads: Uploads) -> None:
    page = plan_settings(read_settings({}), uploads).groups[0].config
    study = gradlab.plan("identity").groups[0].config
    assert page.model == study.model
    assert page.data == study.data
    other = plan_settings(read_settings({"a": {"width": 32}}), uploads)
    assert [planned.config.model.stem for planned in other.groups] == ["linear", "linear"]


@pytest.mark.parametrize(
    ("raw", "state", "line"),
    [
        ({}, "fair", "Fair: they differ only in the skip."),
        ({"b": {}}, "same", "The two are identical: their curves coincide."),
        (
            {"b": {"skip": "identity", "scale": 1}},
            "unfair",
            "Not fair: besides the skip they differ in the init scale.",
        ),
        (
            {"b": {"lr": 0.1}},
            "unfair",
            "Not fair: they should differ in the skip, but they differ in the learning rate.",
        ),
        (
            {"factor": "all", "b": {"lr": 0.1, "depth": 10, "norm": "layer"}},
            "mixed",
            "They differ in the norm, the depth and the learning rate, "
            "so no difference between them has a single cause.",
        ),
        ({"factor": "all", "b": {"batch": 8}}, "fair", "Fair: they differ only in the batch size."),
    ],
)
def test_the_audit_line_says_what_the_two_differ_in(raw: Any, state: str, line: str, uploads: Uploads) -> None:
    base = {"depth": 4, "width": 64}
    tree = {**raw, "a": base, "b": {**base, **raw.get("b", {"skip": "identity"})}}
    settings = read_settings(tree)
    found = audit_page(settings, plan_settings(settings, uploads))
    assert (found["state"], found["line"]) == (state, line)
    assert all(words[0].isupper() and words.endswith(".") for words in found["details"])


def test_a_saved_study_is_a_file_that_loads_and_is_never_written_over_another(tmp_path: Path, uploads: Uploads) -> None:
    settings = read_settings({"task": "moons", "seed": 3, "steps": 5, "a": SMALL, "b": {**SMALL, "norm": "layer"}})
    found = save_study(settings, uploads, tmp_path, "mine")
    assert found["file"] == "mine.yaml"
    plan = gradlab.plan(tmp_path / "mine.yaml")
    assert plan.study.name == "mine"
    assert [trial.id for trial in plan.trials] == [trial.id for trial in plan_settings(settings, uploads).trials]
    save_study(settings, uploads, tmp_path, "mine")
    other = read_settings({"task": "moons", "a": SMALL, "b": SMALL})
    with pytest.raises(InvalidInput, match="already there"):
        save_study(other, uploads, tmp_path, "mine")


@pytest.mark.parametrize("name", ["../up", "a/b", "", "A", "x.yaml", ".hidden", 7, None, "x" * 99])
def test_a_study_is_saved_only_in_the_folder(name: Any, tmp_path: Path, uploads: Uploads) -> None:
    with pytest.raises(InvalidInput, match="cannot be used"):
        save_study(read_settings({}), uploads, tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_a_study_with_uploaded_data_takes_the_file_along(tmp_path: Path, uploads: Uploads) -> None:
    found = uploads.add("points.csv", b"a,b,y\n" + b"".join(b"%d,%d,%d\n" % (i, i * i, i % 2) for i in range(60)))
    settings = read_settings({"task": "upload", "upload": found.id, "steps": 2, "a": SMALL, "b": SMALL})
    assert "path: points.csv" in write_study(settings, uploads)
    save_study(settings, uploads, tmp_path, "mine")
    plan = gradlab.plan(tmp_path / "mine.yaml")
    assert [trial.id for trial in plan.trials] == [trial.id for trial in plan_settings(settings, uploads).trials]


def test_the_colors_of_the_arms_are_those_of_the_reports_first_two_groups() -> None:
    style = (STATIC / "lab.css").read_text()
    light, dark = style.split("prefers-color-scheme: dark", 1)
    assert f"--a: {HUES[0]}; --b: {HUES[1]};" in light
    assert f"--a: {DARK_HUES[0]}; --b: {DARK_HUES[1]};" in dark

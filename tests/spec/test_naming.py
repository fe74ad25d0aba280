"""Names for people: what sets a group apart, in words, without what all groups share."""

from __future__ import annotations

from typing import Any

import pytest

import gradlab
from gradlab.errors import InvalidInput, StudyError
from gradlab.spec.naming import Names
from gradlab.words import counted, written


def names_of(study: str | dict[str, Any], **keywords: Any) -> Names:
    plan = gradlab.plan(study, **keywords)
    groups = [planned.group for planned in plan.groups]
    return Names(groups, plan.catalog, arms=plan.study.arms is not None, labels=plan.study.labels)


def test_a_group_is_named_by_what_sets_it_apart() -> None:
    names = names_of("depth-controlled")
    assert (
        names.group("depth=30, skip=add_then_activate, init=torch_default(bias=same)")
        == "30 layers, skip, default init"
    )
    assert names.group("depth=2, skip=none, init=he_normal(bias=zeros)") == "2 layers, no skip, He init"


def test_every_name_of_every_built_in_study_is_its_own() -> None:
    for study in gradlab.list_studies():
        names = names_of(study)
        found = [names.group(name) for name in names.groups]
        assert len(set(found)) == len(found), study
        assert not any("=" in name or "_" in name for name in found), found


def test_what_is_said_elsewhere_is_left_out_and_settings_tell_all() -> None:
    names = names_of("depth-controlled")
    group = "depth=30, skip=none, init=he_normal(bias=zeros)"
    assert names.group(group, without=["model.depth"]) == "no skip, He init"
    assert names.settings(group) == "model.depth = 30; model.init = he_normal; model.skip = none"


def test_arms_keep_the_names_that_their_author_gave_them() -> None:
    names = names_of("identity")
    assert [names.group(name) for name in names.groups] == ["the plain network", "the residual network"]


def test_parameters_are_said_where_two_levels_would_have_the_same_name(tree: dict[str, Any]) -> None:
    tree |= {
        "arms": None,
        "axes": {"model.activation": ["relu", *({"kind": "leaky_relu", "negative_slope": s} for s in (0.1, 0.2))]},
    }
    names = names_of(tree)
    assert [names.group(name) for name in names.groups] == [
        "ReLU",
        "leaky ReLU (negative_slope=0.1)",
        "leaky ReLU (negative_slope=0.2)",
    ]


def test_labels_rename_levels_and_arms_and_do_not_change_trials(tree: dict[str, Any]) -> None:
    grid = {**tree, "arms": None, "axes": {"model.skip": ["none", "identity"], "model.depth": [3, 4]}}
    labeled = {**grid, "labels": {"skip=none": "plain", "model.skip=identity": "residual"}}
    names = names_of(labeled)
    assert [names.group(name) for name in names.groups][:2] == ["3 layers, plain", "4 layers, plain"]
    assert [t.id for t in gradlab.plan(grid).trials] == [t.id for t in gradlab.plan(labeled).trials]
    arms = names_of({**tree, "labels": {"plain": "No skip"}})
    assert arms.group("plain") == "No skip"


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ({"skp=none": "plain"}, "labels.skp=none: 'skp=none' is neither a group nor axis=level of this study"),
        ({"skip=non": "plain"}, "labels.skip=non: there is no skip 'non'; did you mean 'none'?"),
        ({"plan": "x"}, "did you mean 'plain'?"),
    ],
)
def test_a_label_of_nothing_is_refused(tree: dict[str, Any], labels: dict[str, str], sentence: str) -> None:
    with pytest.raises(StudyError) as caught:
        gradlab.plan({**tree, "labels": labels})
    assert sentence in str(caught.value)


def test_an_axis_is_found_by_its_path_its_last_word_or_its_name() -> None:
    names = names_of("depth-controlled")
    assert names.path("model.depth") == names.path("depth") == names.path("layers") == "model.depth"
    with pytest.raises(InvalidInput, match=r"they differ in depth, skip, init; did you mean 'depth'\?"):
        names.path("deph")
    assert names.span("model.depth", 2, 30) == "2 to 30 layers"
    assert names_of("scaling-width").span("model.width", 2, 256) == "width 2 to 256"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5006, "5,006"), (5006.2, "5,010"), (1e6, "10⁶"), (2.6e12, "2.6 × 10¹²"), (0.0632, "0.0632"), (0, "0"),
        (-0.5, "−0.5"), (1e-4, "10⁻⁴"), (9.9999e-5, "10⁻⁴"), (999.96, "1,000"), (None, "–"), (float("nan"), "NaN"),
        (float("-inf"), "−∞"), (5e-324, "4.9e-324"), (12345.0, "12,300"), (1, "1"), (999999.9, "10⁶"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_people_write_them(value: float | None, text: str) -> None:
    assert written(value) == text


def test_one_seed_is_not_seeds() -> None:
    assert [counted(n, "seed") for n in (0, 1, 5006)] == ["0 seeds", "1 seed", "5,006 seeds"]

"""Depth and widths: several ways to say them, one of them at a time; fields at their default change no id."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

import gradlab
from gradlab.errors import StudyError
from gradlab.spec.config import Model
from gradlab.testing.base import small_tree

DEEP = {"stem": "linear", "head": "linear", "layers_per_block": 2}


def tree(model: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    found = deepcopy(small_tree())
    found["base"]["model"] |= DEEP
    for name in ("depth", "width"):
        del found["base"]["model"][name]
    found["base"]["model"] |= {"depth": 5, "width": 4} if model is None else model
    return {**found, "arms": None, "factor": [], **more}


def ids(*args: Any, **more: Any) -> list[str]:
    return [trial.id for trial in gradlab.plan(tree(*args, **more)).trials]


def test_blocks_are_another_way_to_say_depth_and_give_the_same_trials() -> None:
    assert Model.model_validate({**DEEP, "blocks": 2, "width": 4}).depth == 5
    assert Model.model_validate({"stem": "none", "blocks": 32, "width": 4}).depth == 32
    assert ids({"blocks": 2, "width": 4}) == ids()
    assert ids({"blocks": 3, "width": 4}) != ids()


def test_an_override_of_blocks_replaces_the_depth_and_the_other_way_round() -> None:
    def model(overrides: Any, own: Any = None) -> Model:
        return gradlab.plan(tree(own), overrides=overrides).groups[0].config.model

    assert model(["model.blocks=3"]).depth == 7
    assert model(["model.depth=3"], {"blocks": 2, "width": 4}).blocks is None
    assert model(["model.widths=[4, 3, 3, 2, 2]"]).layer_widths == (4, 3, 3, 2, 2)
    assert model(["model.widths={linear: [8, 4]}"]).layer_widths == (8, 6, 6, 4, 4)
    assert model(["model.width=3"], {"depth": 5, "widths": {"log": [8, 2]}}).layer_widths == (3,) * 5


def test_blocks_as_an_axis_name_their_groups_and_scale_with_the_depth() -> None:
    own = {"blocks": 1, "width": 4, "skip": "scaled", "init": {"kind": "he_normal", "scale": "1/sqrt(depth)"}}
    plan = gradlab.plan(tree(own, axes={"model.blocks": [1, 4]}))
    assert [planned.group.name for planned in plan.groups] == ["blocks=1", "blocks=4"]
    assert [planned.group.settings for planned in plan.groups] == [{"model.blocks": 1}, {"model.blocks": 4}]
    assert [planned.config.model.depth for planned in plan.groups] == [3, 9]
    found = gradlab.audit(tree(own, axes={"model.blocks": [1, 4]}))
    assert found.fair
    assert any("model.blocks" in setting for setting in found.varied)
    assert any("1/sqrt(depth)" in setting for setting in found.varied)


def test_arms_may_say_blocks_where_the_base_says_depth() -> None:
    arms = {"shallow": {}, "deep": {"model.blocks": 4}}
    plan = gradlab.plan(tree(arms=arms, factor=["model.depth", "model.blocks"]))
    assert [planned.config.model.depth for planned in plan.groups] == [5, 9]
    assert gradlab.audit(tree(arms=arms, factor=["model.depth", "model.blocks"])).fair


def test_lists_of_widths_can_be_swept_and_give_the_depth() -> None:
    axes = {"model.widths": [[4, 4, 4], [8, 4, 4, 2, 2], {"linear": [6, 2]}]}
    own = {"width": 4, "depth": 3}
    with pytest.raises(StudyError, match="5 widths for depth 3"):
        gradlab.plan(tree(own, axes=axes))
    plan = gradlab.plan(tree({"width": 4}, axes={"model.widths": axes["model.widths"][:2]}))
    assert [planned.group.name for planned in plan.groups] == ["widths=[4, 4, 4]", "widths=[8, 4, 4, 2, 2]"]
    assert [planned.config.model.depth for planned in plan.groups] == [3, 5]
    assert gradlab.audit(tree({"width": 4}, axes={"model.widths": axes["model.widths"][:2]})).fair


def test_a_taper_goes_from_the_stem_to_the_last_block() -> None:
    def widths(**own: Any) -> tuple[int, ...]:
        return Model.model_validate({"depth": 5, **own}).layer_widths

    assert widths(widths={"linear": [64, 16]}) == (64, 52, 40, 28, 16)
    assert widths(widths={"log": [64, 4]}) == (64, 32, 16, 8, 4)
    assert widths(widths={"log": [64, 4]}, layers_per_block=2) == (64, 16, 16, 4, 4)
    assert widths(widths={"linear": [3, 9]}, depth=1) == (3,)


SAID_WRONG = {
    "both": ({"depth": 5, "blocks": 2, "width": 4}, r"model\.blocks: depth and blocks say the same thing"),
    "neither": ({"width": 4}, r"model\.depth: is missing; give depth .* or blocks"),
    "both widths": ({"depth": 5, "width": 4, "widths": [4] * 5}, r"model\.widths: give width or widths, not both"),
    "no width": ({"depth": 5}, r"model\.width: is missing"),
    "no number of blocks": ({"blocks": "many", "width": 4}, r"model\.blocks: a whole number was expected, not 'many'"),
    "no blocks at all": ({"blocks": 0, "width": 4}, r"model\.blocks: must be at least 1"),
    "too many blocks": ({"blocks": 6000, "width": 4}, r"model\.blocks: 6,000 blocks of 2 layers are more than 10,000"),
    "too few widths": ({"depth": 5, "widths": [4, 4]}, r"model\.widths: 2 widths for depth 5"),
    "two rules": ({"depth": 5, "widths": {"log": [4, 4], "linear": [4, 4]}}, r"model\.widths: give a list of widths"),
    "an unknown rule": ({"depth": 5, "widths": {"square": [4, 4]}}, r"model\.widths\.square: unknown key"),
    "a width of nothing": ({"depth": 5, "widths": [4, 4, 0, 4, 4]}, r"model\.widths\.3: .*not 0"),
    "the stem of a network without one": (
        {"depth": 4, "width": 4, "stem": "none", "stem_activation": False},
        r"model\.stem_activation: there is no stem",
    ),
    "what follows no head": ({"depth": 5, "width": 4, "head": "none", "head_activation": "tanh"}, "there is no head"),
}


@pytest.mark.parametrize("case", SAID_WRONG)
def test_a_mistake_is_refused_with_its_path_and_what_to_do(case: str) -> None:
    model, message = SAID_WRONG[case]
    with pytest.raises(StudyError, match=message):
        gradlab.plan(tree(model))


def test_overrides_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(StudyError, match=r"arms\.a.*model\.depth: model\.blocks is given as well"):
        gradlab.plan(tree(arms={"a": {"model.depth": 5, "model.blocks": 2}}))
    with pytest.raises(StudyError, match=r"the study sweeps model\.depth; set axes\.model\.depth"):
        gradlab.plan(tree(axes={"model.depth": [3, 5]}), overrides=["model.blocks=3"])


def test_a_new_field_at_its_default_changes_no_id_and_another_value_does() -> None:
    usual: dict[str, Any] = {
        "stem_activation": True, "stem_norm": True, "head_activation": "identity", "widths": None, "blocks": None,
        "projection": {"kind": "lecun_normal", "scale": 1.0},
    }  # fmt: skip
    plain = {"depth": 5, "width": 4}
    assert ids({**plain, **usual}) == ids()
    others = [{"stem_activation": False}, {"stem_norm": False}, {"head_activation": "tanh"}, {"projection": "zeros"}]
    assert len({ids({**plain, **other})[0] for other in others} | {ids()[0]}) == 5
    measured = tree()["measure"]
    assert ids(measure={**measured, "best": None}) == ids()
    assert ids(measure={**measured, "best": "train_loss"}) != ids()


def test_the_id_of_a_study_without_the_new_fields_is_what_it_was() -> None:
    assert gradlab.plan(small_tree()).trials[0].id == "c0dab6af7a6e3777"

from __future__ import annotations

from typing import Any

import pytest

import gradlab
from gradlab.errors import StudyError
from gradlab.spec.selection import chosen

PLAIN = {"text": "t", "metric": "final_loss", "arms": "plain"}
GRID = {"model.depth": [2, 4, 8], "model.skip": ["none", "identity"]}


def study(tree: dict[str, Any], claim: Any, axes: dict[str, Any] | None = None) -> dict[str, Any]:
    made = {**tree, "claims": [claim]}
    if axes:
        made |= {"axes": axes, "arms": None}
    return made


def picked(tree: dict[str, Any], claim: dict[str, Any], axes: dict[str, Any] | None = GRID) -> tuple[Any, ...]:
    loaded = gradlab.load(study(tree, {"text": "t", "metric": "final_loss", **claim}, axes))
    return chosen(loaded.study.claims[0], loaded.groups)


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"text": "t", "op": ">", "value": 1}, "claims.1.metric"),
        ({"text": "t", "metric": "final_loss"}, "claims.1.op"),
        ({"text": "t", "metric": "final_loss", "op": "betwen", "value": 1}, "did you mean 'between'"),
        ({**PLAIN, "op": "between", "value": 1}, "claims.1.value"),
        ({**PLAIN, "op": "between", "value": [2, 1]}, "low before high"),
        ({**PLAIN, "op": "near"}, "claims.1.value"),
        ({**PLAIN, "op": "near", "value": 0}, "use between"),
        ({**PLAIN, "op": ">"}, "claims.1.value"),
        ({**PLAIN, "op": "ratio", "value": 2}, "claims.1.arms"),
        ({"text": "t", "metric": "final_loss", "arms": ["plain", "residual"], "op": "ratio", "value": -2}, "positive"),
        ({"text": "t", "metric": "final_loss", "arms": ["plain", "residual"], "op": ">", "value": 2}, "claims.1.value"),
        ({"text": "t", "metric": "final_loss", "arms": ["plain"], "op": "ordered"}, "claims.1.arms"),
        ({"text": "t", "metric": "final_loss", "op": "decreasing"}, "claims.1.along"),
        ({"text": "t", "metric": "final_loss", "op": "decreasing", "along": "depth"}, "claims.1.along"),
        ({**PLAIN, "op": ">", "value": 1, "within": 0.1}, "claims.1.within"),
        ({"text": "t", "metric": "final_loss", "arms": "plian", "op": ">", "value": 1}, "did you mean 'plain'"),
        ({"text": "t", "metric": "final_los", "arms": "plain", "op": ">", "value": 1}, "did you mean 'final_loss'"),
        ({"text": "t", "metric": "grad_l2", "arms": "plain", "op": ">", "value": 1}, "give at.layer"),
        ({"text": "t", "metric": "grad_l2", "arms": "plain", "at": {"layer": 9}, "op": ">", "value": 1}, "no layer 9"),
        ({"text": "t", "metric": "final_loss", "at": {"dept": 2}, "op": ">", "value": 1}, "claims.1.at.dept"),
        ({**PLAIN, "op": ">", "value": 1, "figure": "no"}, "claims.1.figure"),
        ({**PLAIN, "op": ">", "value": 1, "anything": 1}, "unknown key"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_claim_names_its_field(tree: dict[str, Any], claim: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message.replace("[", r"\[").replace(".", r"\.")):
        gradlab.plan(study(tree, claim))


def test_a_plain_sentence_is_a_claim(tree: dict[str, Any]) -> None:
    text = "it is so"
    assert gradlab.plan(study(tree, text)).resolved.study.claims[0].text == text


def test_an_arm_is_selected_by_name_or_by_a_setting(tree: dict[str, Any]) -> None:
    assert picked(tree, {"arms": "residual", "op": ">", "value": 1}, None) == (("residual",),)
    assert picked(tree, {"arms": "depth=4, skip=none", "op": ">", "value": 1}) == (("depth=4, skip=none",),)
    every = picked(tree, {"arms": "skip=none", "op": ">", "value": 1})
    assert every == tuple((f"depth={d}, skip=none",) for d in (2, 4, 8))
    narrowed = picked(tree, {"arms": "skip=none", "at": {"depth": [2, 8]}, "op": ">", "value": 1})
    assert narrowed == (("depth=2, skip=none",), ("depth=8, skip=none",))


def test_two_arms_that_match_several_groups_are_paired_by_their_other_settings(tree: dict[str, Any]) -> None:
    found = picked(tree, {"arms": ["skip=identity", "skip=none"], "op": "<"})
    assert found == tuple((f"depth={d}, skip=identity", f"depth={d}, skip=none") for d in (2, 4, 8))


def test_along_an_axis_there_is_one_row_per_combination_of_other_settings(tree: dict[str, Any]) -> None:
    found = picked(tree, {"op": "decreasing", "along": "depth"})
    assert found == tuple(tuple(f"depth={d}, skip={s}" for d in (2, 4, 8)) for s in ("none", "identity"))
    some = picked(tree, {"op": "increasing", "along": "model.depth", "arms": "skip=none", "at": {"depth": [8, 2]}})
    assert some == (("depth=2, skip=none", "depth=8, skip=none"),)


def test_a_value_that_is_not_on_an_axis_is_refused_with_the_accepted_ones(tree: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match="it has 2, 4, 8"):
        picked(tree, {"at": {"depth": 3}, "op": ">", "value": 1})
    with pytest.raises(StudyError, match="along: 'widht' is not an axis"):
        picked(tree, {"op": "decreasing", "along": "widht"})


def test_claims_survive_a_yaml_round_trip(tree: dict[str, Any], tmp_path: Any) -> None:
    claim = {
        "text": "t",
        "metric": "final_loss",
        "at": {"depth": 4},
        "arms": "skip=none",
        "op": "between",
        "value": [1, 2],
    }
    loaded = gradlab.load(study(tree, claim, GRID))
    path = tmp_path / "again.yaml"
    path.write_text(gradlab.spec.files.to_yaml(loaded.study))
    assert gradlab.load(path).study.claims == loaded.study.claims

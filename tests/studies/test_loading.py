"""Studies from a name or a file: what overrides of the depth do to claims about layers."""

from __future__ import annotations

import pytest

import gradlab


@pytest.mark.parametrize(
    ("name", "depth"), [("identity", 5), ("identity", 10), ("identity", 19), ("identity", 40), ("gradflow", 3),
                        ("batch-norm-explodes", 10)]
)  # fmt: skip
def test_another_depth_moves_claims_about_layers_to_the_same_relative_place(name: str, depth: int) -> None:
    plan = gradlab.plan(name, overrides={"model.depth": depth})
    assert {planned.group.config.model.depth for planned in plan.groups} == {depth}
    layers = plan.groups[0].cost.layers
    for entry in (*plan.study.claims, *plan.study.published):
        numbers = entry.at.layer if isinstance(entry.at.layer, tuple) else (entry.at.layer,)
        assert all(number <= layers for number in numbers if isinstance(number, int))


def test_the_last_layer_stays_the_last_and_the_change_is_told() -> None:
    study = gradlab.load("identity", overrides={"model.depth": 10}).study
    assert [claim.at.layer for claim in study.claims if claim.text.startswith("Before")] == [("last", 1)] * 2
    assert any("same relative depth" in remark for remark in study.remarks)
    assert not [entry for entry in study.published if isinstance(entry.at.layer, int)]

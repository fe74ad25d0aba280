"""Axes: lists, ranges, and axes that change together."""

from __future__ import annotations

from typing import Any

import pytest

import gradlab
from gradlab.errors import StudyError
from gradlab.spec.study import Range


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ({"log": [1e-4, 1e-1], "points": 4}, (1e-4, 1e-3, 1e-2, 1e-1)),
        ({"log": [1e-3, 1e-1], "points": 5}, (1e-3, 0.003162, 0.01, 0.03162, 0.1)),
        ({"log": [1, 64], "points": 7}, (1, 2, 4, 8, 16, 32, 64)),
        ({"log": [1, 4], "points": 9}, (1, 2, 3, 4)),
        ({"log": [8, 1], "points": 4}, (8, 4, 2, 1)),
        ({"linear": [0.1, 0.5], "points": 5}, (0.1, 0.2, 0.3, 0.4, 0.5)),
        ({"linear": [10, 30], "points": 3}, (10, 20, 30)),
        ({"log": [1e-4, 0.123456], "points": 3}, (1e-4, 0.003514, 0.123456)),
        ({"linear": [0.9, 0.99999], "points": 3}, (0.9, 0.95, 0.99999)),
        ({"linear": [1000.1, 1000.4], "points": 4}, (1000.1, 1000.2, 1000.3, 1000.4)),
        ({"range": [1, 5]}, (1, 2, 3, 4, 5)),
        ({"range": [2, 11], "step": 4}, (2, 6, 10)),
        ({"range": [3, 1]}, (3, 2, 1)),
    ],
)
def test_a_rule_expands_to_its_values(rule: dict[str, Any], values: tuple[Any, ...]) -> None:
    found = Range.model_validate(rule).values()
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]


def grid(tree: dict[str, Any], **sections: Any) -> list[str]:
    tree = {**tree, "arms": None, "factor": [], **sections}
    return [group.name for group in gradlab.load(tree).groups]


def test_ranges_make_groups_with_readable_names(tree: dict[str, Any]) -> None:
    names = grid(tree, axes={"train.lr": {"log": [1e-3, 1e-1], "points": 3}, "model.depth": {"range": [1, 3]}})
    assert names[:4] == ["lr=0.001, depth=1", "lr=0.001, depth=2", "lr=0.001, depth=3", "lr=0.01, depth=1"]
    assert len(names) == 9


def test_zipped_axes_change_together_and_are_crossed_with_the_others(tree: dict[str, Any]) -> None:
    together = {"model.depth": [1, 2], "train.lr": [0.1, 0.2]}
    assert grid(tree, zip=together) == ["depth=1, lr=0.1", "depth=2, lr=0.2"]
    names = grid(tree, zip=together, axes={"model.skip": ["none", "identity"]})
    assert names[:2] == ["depth=1, lr=0.1, skip=none", "depth=1, lr=0.1, skip=identity"]
    assert len(names) == 4


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"zip": {"model.depth": [1, 2], "train.lr": [0.1]}}, r"zip: .*model.depth has 2, train.lr has 1"),
        ({"zip": {}}, "zip: a study needs arms or axes, and `zip` is empty"),
        ({"zip": {"model.depth": [1]}, "axes": {"model.depth": [1]}}, r"zip\.model\.depth: .*also an axis"),
        ({"zip": {"model.depth": [1]}, "arms": {"a": {}}}, "factor: arms and axes together need a factor"),
        ({"axes": {"train.lr": {"log": [0, 1], "points": 3}}}, r"axes\.train\.lr\.log: both ends .* above 0"),
        (
            {"axes": {"train.lr": {"log": [1, 2]}}},
            r"axes\.train\.lr\.points: give the number of points: {log: \[from, to\]",
        ),
        ({"axes": {"train.lr": {"lag": [1, 2]}}}, r"axes\.train\.lr\.lag: unknown key 'lag' .*did you mean 'log'"),
        ({"axes": {"train.lr": {}}}, r"axes\.train\.lr: give a list of values, or one of log, linear and range"),
        ({"axes": {"train.lr": {"log": [1, 2], "linear": [1, 2], "points": 3}}}, "one of log, linear and range"),
        ({"axes": {"model.depth": {"range": [1, 10**9]}}}, "more than 10,000 values"),
        ({"axes": {"model.depth": {"range": [1, 5], "points": 2}}}, "has a step, not points"),
        ({"axes": {"train.lr": {"linear": [1, 10**400], "points": 3}}}, "the ends are too large"),
        ({"axes": {"train.lr": {"log": [True, 10], "points": 3}}}, r"axes\.train\.lr\.log"),
        ({"axes": {"model.depth": {"range": [1.5, 5]}}}, r"axes\.model\.depth\.range"),
        ({"axes": {"model.depth": {"linear": [1, 5], "points": 1}}}, r"axes\.model\.depth\.points"),
    ],
)
def test_an_invalid_axis_is_refused_with_its_path(sections: dict[str, Any], message: str, tree: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match=message):
        gradlab.load({**tree, "arms": None, "factor": [], **sections})


def test_overrides_reach_ranges_and_zipped_axes(tree: dict[str, Any]) -> None:
    tree = {**tree, "arms": None, "factor": [], "zip": {"model.depth": [1, 2], "train.lr": [0.1, 0.2]}}
    changed = gradlab.load(tree, overrides=["zip.train.lr={log: [0.01, 0.1], points: 2}", "axes.model.skip=none"])
    assert [group.name for group in changed.groups] == ["depth=1, lr=0.01, skip=none", "depth=2, lr=0.1, skip=none"]
    with pytest.raises(StudyError, match=r"set zip\.train\.lr=\[…\] instead"):
        gradlab.load(tree, overrides=["train.lr=1"])


def test_a_study_with_rules_is_written_with_its_values(tree: dict[str, Any]) -> None:
    from gradlab.spec.files import to_yaml

    tree = {**tree, "arms": None, "factor": [], "axes": {"model.depth": {"range": [1, 3]}}}
    assert "model.depth: [1, 2, 3]" in to_yaml(gradlab.load(tree).study)

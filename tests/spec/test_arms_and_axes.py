"""Arms and axes together: every arm at every point, compared within a point, along an axis or as a whole."""

from __future__ import annotations

from typing import Any

import pytest

import gradlab
from gradlab.errors import StudyError
from gradlab.spec.selection import chosen


def tree(**fields: Any) -> dict[str, Any]:
    return {
        "question": "Do families differ at every depth?",
        "factor": ["model.activation", "model.init"],
        "base": {
            "data": {"task": "moons", "samples": 24, "test": 8},
            "model": {"depth": 2, "width": 6},
            "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.1, "batch": 8, "steps": 4},
        },
        "arms": {
            "ReLU": {"model.init": "he_normal"},
            "SELU": {"model.activation": "selu", "model.init": "lecun_normal"},
            "tanh": {"model.activation": "tanh", "model.init": "xavier_normal"},
        },
        "axes": {"model.depth": [2, 3, 5]},
        "seeds": 3,
        **fields,
    }


CLAIM = {"text": "t", "metric": "final_loss"}


def rows(**claim: Any) -> tuple[tuple[str, ...], ...]:
    planned = gradlab.plan(tree(claims=[{**CLAIM, **claim}]))
    return chosen(planned.study.claims[0], [each.group for each in planned.groups])


def test_every_arm_stands_at_every_point() -> None:
    planned = gradlab.plan(tree())
    assert [each.group.name for each in planned.groups][:4] == [
        "ReLU, depth=2", "SELU, depth=2", "tanh, depth=2", "ReLU, depth=3",
    ]  # fmt: skip
    last = planned.groups[-1].config.model
    assert (last.depth, last.activation.name, last.init.name) == (5, "tanh", "xavier_normal")


def test_two_arms_are_compared_at_every_point_and_at_one() -> None:
    assert rows(arms=["SELU", "ReLU"], op="<") == tuple((f"SELU, depth={n}", f"ReLU, depth={n}") for n in (2, 3, 5))
    assert rows(arms=["SELU", "ReLU"], op="<", at={"depth": 3}) == (("SELU, depth=3", "ReLU, depth=3"),)
    assert rows(arms=["SELU, depth=2", "SELU, depth=5"], op="<") == (("SELU, depth=2", "SELU, depth=5"),)


def test_a_claim_goes_along_the_axis_for_an_arm_and_for_all() -> None:
    assert rows(arms="ReLU", op="increasing", along="depth") == (tuple(f"ReLU, depth={n}" for n in (2, 3, 5)),)
    assert len(rows(op="increasing", along="depth")) == 3


def test_the_audit_compares_the_arms_within_a_point() -> None:
    assert gradlab.audit(tree()).passed
    assert not gradlab.audit(tree(factor="model.activation")).passed


def test_it_runs_and_answers() -> None:
    result = gradlab.run(tree(claims=[{**CLAIM, "arms": ["SELU", "ReLU"], "op": "<", "at": {"depth": 5}}]))
    assert len(result.trials()) == 27
    assert len(result.verdicts) == 1


@pytest.mark.parametrize(
    "wrong", [{"factor": ()}, {"axes": {"model.activation": ["relu", "tanh"]}}], ids=["no factor", "set by both"]
)
def test_what_would_be_ambiguous_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(StudyError):
        gradlab.plan(tree(**wrong))

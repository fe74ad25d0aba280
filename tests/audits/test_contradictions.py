"""Studies that contradict themselves: arms with the names of others, sentences against their op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from small_study import claims, failed, study

import gradlab
from gradlab import studies
from gradlab.audits.caveats.claims import direction_of, read_sentence
from gradlab.audits.study import audit_plan, design_of
from gradlab.spec.claims import Claim

OPPOSITE = {">": "<", "<": ">", "increasing": "decreasing", "decreasing": "increasing", "highest": "lowest",
            "lowest": "highest"}  # fmt: skip


# ---------------------------------------------------------------------- names that contradict settings


@pytest.mark.parametrize(
    ("factor", "arms"),
    [
        ("model.skip", {"residual": "none", "plain": "identity"}),
        ("model.skip", {"no skip": "identity", "skip": "none"}),
        ("model.skip", {"baseline": "identity", "ResNet": "none"}),
        ("model.activation", {"relu": "tanh", "tanh": "relu"}),
        ("model.init", {"he": "xavier_normal", "xavier": "he_normal"}),
        ("model.norm", {"without-norm": "layer", "layer-norm": "none"}),
        ("model.depth", {"deep": 2, "shallow": 5}),
        ("model.depth", {"depth 2": 5, "depth 5": 2}),
        ("train.lr", {"lr-0.1": 0.01, "lr-0.01": 0.1}),
        ("train.lr", {"1e-3": 0.01, "1e-2": 0.001}),
        ("train.lr", {"low lr": 0.1, "high lr": 0.01}),
        ("train.optimizer", {"SGD": "adam", "Adam": "sgd"}),
        ("model.bias", {"bias": False, "no bias": True}),
    ],
)
def test_names_that_belong_to_the_other_arm_fail_the_audit_and_the_right_ones_pass(factor: str, arms: Any) -> None:
    first, second = arms
    swapped = study(factor=factor, arms={name: {factor: value} for name, value in arms.items()})
    right = study(factor=factor, arms={first: {factor: arms[second]}, second: {factor: arms[first]}})
    assert failed(swapped) == {"misnamed_arms"}
    assert not failed(right)


def test_swapped_labels_of_arms_and_of_levels_fail_the_audit() -> None:
    assert failed(study(labels={"plain": "residual", "residual": "plain"})) == {"misnamed_arms"}
    grid = study(arms=None, axes={"model.skip": ["none", "identity"]})
    del grid["arms"]
    assert not failed(grid | {"labels": {"skip=none": "plain", "skip=identity": "residual"}})
    assert failed(grid | {"labels": {"skip=none": "residual", "skip=identity": "plain"}}) == {"misnamed_arms"}


@pytest.mark.parametrize(
    ("factor", "arms"),
    [
        ("model.init.scale", {"arm 0": 1, "arm 1": 2.0, "arm 2": 1.5}),
        ("model.depth", {"model one": 2, "model two": 3, "model three": 4}),
        ("model.activation", {"relu": "relu", "leaky-relu": "leaky_relu"}),
        ("train.optimizer", {"adam": "adam", "adamw": "adamw"}),
        ("model.norm", {"none": "none", "layer norm": "layer", "batch norm": "batch"}),
        ("model.init", {"he-normal": "he_normal", "he-uniform": "he_uniform", "zero": "zeros"}),
        ("model.skip", {"baseline for the residual net": "none", "residual (scaled)": "scaled", "ReZero": "rezero"}),
        ("train.schedule", {"fixed rate": "fixed", "cosine": "cosine"}),
        ("model.width", {"narrow": 4, "medium": 8, "wide": 16}),
    ],
)
def test_usual_names_pass(factor: str, arms: Any) -> None:
    assert not failed(study(factor=factor, arms={name: {factor: value} for name, value in arms.items()}))


@pytest.mark.parametrize(
    "name", ["baseline", "as published", "skip or not", "A", "the identity, plain", "plain vs skip"]
)
def test_names_that_say_nothing_clear_pass(name: str) -> None:
    tree = study(arms={name: {}, "B": {"model.skip": "identity"}})
    assert not failed(tree)


# ---------------------------------------------------------------------- sentences that contradict their op


CLEAR: list[dict[str, Any]] = [
    {"text": "The residual net is better than the plain one"},
    {"text": "The residual net is more accurate"},
    {"text": "The skip beats the plain net"},
    {"text": "Accuracy is higher with the skip"},
    {"text": "The plain net is worse"},
    {"text": "Plain is outperformed by residual"},
    {"text": "The residual net has a lower loss"},
    {"text": "The residual net ends at a lower loss", "metric": "final_loss", "op": "<"},
    {"text": "The residual net ends at a lower loss", "metric": "final_loss", "arms": ["plain", "residual"]},
    {"text": "Without the skip the loss is higher", "metric": "test_loss", "op": "<"},
    {"text": "The residual net is at least ten times better", "metric": "final_loss", "op": "ratio", "value": [0, 0.1]},
    {"text": "The residual net reaches more than 90 %", "arms": "residual", "value": 0.9},
    {"text": "The plain net stays below 0.6", "arms": "plain", "op": "<", "value": 0.6},
    {"text": "The residual net has the highest accuracy", "arms": "residual", "op": "highest"},
    {"text": "The plain net is the worst", "arms": "plain", "op": "lowest"},
    {"text": "The skip raises test accuracy"},
    {"text": "The residual net is superior to the plain one"},
    {"text": "The residual net makes fewer errors"},
    {"text": "The plain net loses against the residual one"},
    {"text": "The residual net is more accurate than 0.9", "arms": "residual", "value": 0.9},
    {"text": "The skip reduces the loss", "metric": "test_loss", "op": "<"},
]


@pytest.mark.parametrize("claim", CLEAR, ids=lambda claim: claim["text"])
def test_a_sentence_against_its_op_fails_the_audit_and_the_same_with_its_op_passes(claim: dict[str, Any]) -> None:
    given = {"op": ">", **claim}
    assert not failed(claims(claim))
    contrary = {"op": "ratio", "value": [10, 100]} if given["op"] == "ratio" else {"op": OPPOSITE[given["op"]]}
    assert failed(claims({**claim, **contrary})) == {"claim_text"}


@pytest.mark.parametrize(
    "text",
    [
        "The skip is not better",
        "The residual net is no better than the plain one",
        "Removing the skip makes it worse",
        "Is the residual net worse?",
        "The plain net is worse at first, but better at the end",
        "A lower learning rate suits the residual net",
        "It is worse",
        "Both are equally good",
        "The gradient of the residual net is larger",
        "The skip prevents worse results",
        "The residual net is better conditioned",
    ],
)
@pytest.mark.parametrize("op", [">", "<"])
def test_a_sentence_that_is_not_clear_passes_with_either_op(text: str, op: str) -> None:
    assert not failed(claims({"text": text, "op": op}))


def built_in_claims() -> Iterator[tuple[Claim, Any]]:
    for name in studies.names():
        plan = gradlab.plan(name)
        design = design_of(plan, [])
        yield from ((claim, design) for claim in plan.study.claims)


def test_no_built_in_claim_is_misread_and_most_directions_are_read() -> None:
    read = [(claim, read_sentence(claim, design)) for claim, design in built_in_claims()]
    assert not [claim.text for claim, says in read if says and says != direction_of(claim)]
    assert sum(says != 0 for _, says in read) >= 40


@pytest.mark.thorough
def test_no_built_in_study_is_flawed() -> None:
    expected = {"identity-unfair": False}
    for name in studies.names():
        for quick in (False, True):
            found = audit_plan(gradlab.plan(name, quick=quick), seeds=1, pairs=2)
            assert found.passed == expected.get(name, True), found.answer
            assert not found.flaws

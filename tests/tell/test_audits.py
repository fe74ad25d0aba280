"""The sentences of the audit, each under its code, on the studies in which readers see them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tuned import tuned_tree

import gradlab
from gradlab.audits.audit import Audit
from gradlab.audits.study import audit_plan
from gradlab.testing.base import small_tree


@cache
def audited(name: str) -> Audit:
    return audit_plan(gradlab.plan(name), seeds=1, pairs=6)


BUILT_IN = [
    (
        "identity-unfair",
        "undeclared_difference",
        "initial weights: those of residual are 0.2236 × those of plain, in all 20 layers",
    ),
    ("identity", "loss_floor", "so its loss cannot fall below 0.16"),
    ("identity", "loss_floor", "If the residual network ends lower, the floor may be part of the reason."),
    ("identity", "init_gain", "Init-imposed gain: before any training, signal loses a factor of 4.8 per layer ("),
    ("identity", "init_gain", "weights of this size give a plain layer the gain 0.22"),
    ("depth", "init_gain", "; at 30 layers with the skip, signal gains a factor of 1.1"),
    (
        "scaling-batch",
        "unequal_updates",
        "the arm with batch 32 makes 904,000 updates, the arm with full batch makes 1,000 (904 times fewer, in the "
        "same number of epochs).",
    ),
    (
        "depth-controlled",
        "several_factors",
        "differ in model.init.kind and model.init.bias at once. The effects of the two cannot be told apart.",
    ),
    ("depth", "after_training", "After training: 4 of 12 claims are about layers at the end"),
    ("scaling-width", "capacity", "(168 times as many). The effect of the factor and that of the size cannot be told"),
    ("scaling-width", "shared_rate", "One learning rate: every arm trains at 0.01, and the study does not tune it"),
]


@pytest.mark.parametrize(("study", "code", "sentence"), BUILT_IN, ids=[f"{row[0]}-{row[1]}" for row in BUILT_IN])
def test_a_built_in_study_is_told_its_weakness_so(study: str, code: str, sentence: str) -> None:
    facts = [fact for fact in audited(study).facts if fact.code == code]
    assert any(sentence in fact.words for fact in facts), facts


def with_arms(factor: str, **arms: dict[str, Any]) -> dict[str, Any]:
    return {**small_tree(), "factor": factor, "arms": arms}


TREES = [
    (
        with_arms("model.skip", a={}, b={"model.skip": "none"}, c={}),
        "nothing_varies",
        "Nothing varies: a, b and c are the same set-up, so their results are equal.",
    ),
    (
        with_arms("train.steps", short={}, long={"train.steps": 60}),
        "unequal_updates",
        "makes 60 updates, short makes 20 (3 times fewer).",
    ),
    (
        {**tuned_tree(), "arms": {"plain": {"train.lr": 0.01}, "residual": {"model.skip": "identity"}}},
        "undeclared_difference",
        "train.lr: plain sets it and is not tuned, other arms are tried at 6 values",
    ),
    (tuned_tree(seeds=1), "tuning", "Tuned on one seed: which value is best may be luck, in every arm."),
    (
        {**small_tree(), "seeds": 1},
        "seeds",
        "One seed: a difference cannot be told from luck. Run at least 3.",
    ),
]


@pytest.mark.parametrize(("tree", "code", "sentence"), TREES, ids=[code for _, code, _ in TREES])
def test_a_small_study_is_told_its_weakness_so(tree: dict[str, Any], code: str, sentence: str) -> None:
    facts = [fact for fact in gradlab.audit(tree).facts if fact.code == code]
    assert any(sentence in fact.words for fact in facts), facts


ANSWERS = [
    (
        with_arms("model.skip", a={}, b={"model.skip": "none"}),
        "Yes, but nothing varies: the arms are identical in everything that was compared.",
    ),
    (
        {**small_tree(), "factor": []},
        "No. Besides the declared factor (none is declared) they differ in: forward pass of a block: ",
    ),
    (small_tree(), "Yes: the set-ups are the same except for the declared factor (model.skip). The only difference: "),
    (
        tuned_tree(),
        "Each arm at its own best learning rate, chosen from the same 6 values with the same budget: 12 tuning trials, "
        "by ",
    ),
]


@pytest.mark.parametrize(("tree", "answer"), ANSWERS, ids=["identical", "undeclared", "fair", "tuned"])
def test_an_audit_is_answered_so(tree: dict[str, Any], answer: str) -> None:
    assert answer in gradlab.audit(tree).answer

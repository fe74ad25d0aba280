"""The audit's sentences are true of the study they stand in, and nothing is read back from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab import api
from gradlab.audits.audit import Audit
from gradlab.audits.compare import Row, Status, Trait, compare
from gradlab.audits.study import audit_plan
from gradlab.trials.setup import Setup, prepare
from gradlab.trials.trial import Trial


def of_tensors(**tensors: list[float]) -> Trait:
    found = {name: np.array(values) for name, values in tensors.items()}
    return Trait("initial weights", str(tensors), "words", found)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 2, 3, 4], [2, 4, 6, 8], "those of b are 2 × those of a, in layer1"),
        ([0, 0, 0, 0], [2, 4, 6, 8], "those of a are 0, those of b are not, in layer1"),
        ([2, 4, 6, 8], [0, 0, 0, 0], "those of b are 0, those of a are not, in layer1"),
        ([1, 2, 3, 4], [1, 2, 3, 5], "1 of 4 entries differ by up to 1 between a and b, in layer1"),
        ([1, 2, 3, 4], [4, 1, 2, 9], "different draws in a and in b, in layer1"),
    ],
)
def test_tensors_are_described_by_how_they_differ(first: list[float], second: list[float], expected: str) -> None:
    words = compare(of_tensors(layer1=first), of_tensors(layer1=second), ("a", "b")).sentence
    assert words == f"initial weights: {expected}"


def test_words_that_are_equal_are_not_given_as_a_difference() -> None:
    a, b = (Trait("train data", value, "2,000 samples") for value in ("1f", "2e"))
    found = compare(a, b, ("plain", "residual"))
    assert found.differs
    assert "(2,000 samples in each)" in found.sentence


def test_a_sequence_is_described_by_where_it_begins_to_differ() -> None:
    rates = np.full(20, 0.01)
    late = rates.copy()
    late[7] = 0.011
    a, b = (Trait("learning rate", str(values), "0.01", sequence=values) for values in (rates, late))
    assert compare(a, b, ("a", "b")).sentence.endswith("step 8 on (0.01 and 0.011)")


def test_other_rows_of_as_many_samples_are_said_to_be_others(tree: dict[str, Any]) -> None:
    def realize(trial: Trial) -> Setup:
        setup = prepare(trial)
        if trial.group == "plain":
            return setup
        return replace(setup, dataset=replace(setup.dataset, targets=setup.dataset.targets + 1))

    fact = audit_plan(gradlab.plan(tree), realize=realize).facts[0]
    assert fact.subject == "train data"
    assert "(32 samples in each)" in fact.words


def test_unequal_steps_are_not_put_down_to_epochs(tree: dict[str, Any]) -> None:
    steps = api.audit({**tree, "factor": "train.steps", "arms": {"short": {}, "long": {"train.steps": 60}}})
    assert steps.facts[0].numbers == {"fewest": 20, "most": 60, "ratio": 3}
    assert "epochs" not in steps.facts[0].words
    tree["base"]["train"] |= {"steps": None, "epochs": 5}
    batches = api.audit({**tree, "factor": "train.batch", "arms": {"small": {}, "full": {"train.batch": "full"}}})
    assert batches.facts[0].numbers["ratio"] == 4
    assert "epochs" in batches.facts[0].words


def test_no_caveat_speaks_of_the_depth_in_a_study_of_width() -> None:
    found = audit_plan(gradlab.plan("scaling-width"), seeds=1)
    assert "output_scale" in {fact.code for fact in found.facts}
    assert "depth" not in " ".join(found.limits)


# ---------------------------------------------------------------------- one learning rate


def rates(found: Audit) -> list[str]:
    return [fact.words for fact in found.facts if fact.code == "shared_rate"]


@pytest.mark.parametrize(
    ("factor", "value", "said"),
    [
        ("model.skip", "identity", True),
        ("model.init", "zeros", True),
        ("train.optimizer", "sgd", True),
        ("train.batch", 4, True),
        ("train.lr", 0.1, False),
        ("train.schedule", "cosine", False),
        ("data.samples", 33, False),
        ("train.precision", "float32", False),
    ],
)
def test_one_learning_rate_is_a_limit_where_the_best_may_depend_on_the_arm(
    tree: dict[str, Any], factor: str, value: Any, said: bool
) -> None:
    found = api.audit({**tree, "factor": factor, "arms": {"a": {}, "b": {factor: value}}})
    assert len(rates(found)) == said
    untrained = {**tree, "base": {**tree["base"], "train": {**tree["base"]["train"], "steps": 0}}}
    assert rates(api.audit({**untrained, "factor": factor, "arms": {"a": {}, "b": {factor: value}}})) == []


def test_a_study_with_an_axis_of_learning_rates_has_no_such_limit(tree: dict[str, Any]) -> None:
    axes = {"model.skip": ["none", "identity"], "train.lr": [0.01, 0.1]}
    assert rates(api.audit({**tree, "arms": None, "factor": "model.skip", "axes": axes})) == []


# ---------------------------------------------------------------------- what was not seen, what was stored


def test_every_audit_of_a_comparison_ends_with_what_it_cannot_see(tree: dict[str, Any]) -> None:
    found = api.audit(tree)
    assert "first 2 updates" in found.cannot_see[0]
    limited = audit_plan(gradlab.plan(tree), seeds=1)
    assert any("1 of 2 seeds" in words for words in limited.cannot_see)
    assert all(words in found._repr_html_() for words in found.cannot_see)


def test_an_audit_comes_back_as_it_was_stored(tree: dict[str, Any]) -> None:
    found = api.audit(tree)
    assert Audit.from_json(found.to_json()) == replace(found, suggestion=None)


def test_a_stored_audit_that_does_not_fit_is_refused(tree: dict[str, Any]) -> None:
    stored = api.audit(tree).to_json()
    with pytest.raises(ValueError, match="varied"):
        Audit.from_json({name: value for name, value in stored.items() if name != "varied"})
    stored["table"][0]["status"] = "damaged"
    with pytest.raises(ValueError, match="damaged"):
        Audit.from_json(stored)


def test_the_status_of_a_row_is_shown_in_words() -> None:
    assert Row("loss", ("mse",), Status.UNDECLARED).status.text == "DIFFERS, undeclared"
    assert Status.SAME.value == "same"

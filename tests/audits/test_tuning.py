"""The audit of a tuning: accepted as declared, and only with equal values and budgets in every arm."""

from __future__ import annotations

from typing import Any

import pytest
from tuned import tuned_tree

import gradlab
from gradlab.audits.audit import Audit
from gradlab.audits.compare import TUNED
from gradlab.audits.study import audit_plan
from gradlab.plans.tuning import judge_at


def test_the_tuned_path_is_declared_and_the_answer_says_with_which_budget() -> None:
    found = gradlab.audit(tuned_tree())
    assert found.fair
    assert found.factor == ("model.skip",)
    assert "12 tuning trials" in found.tuned
    assert found.tuned in found.answer
    assert found.only_difference == "`x +`"


def test_arms_at_different_chosen_values_are_fair_and_the_rate_differs_by_the_tuning() -> None:
    plan = gradlab.plan(tuned_tree())
    assert plan.tuning is not None
    chosen = {"plain": plan.tuning.of("plain")[1], "residual": plan.tuning.of("residual")[3]}
    found = audit_plan(judge_at(plan, chosen))
    assert found.fair, found.undeclared
    (rate,) = [row for row in found.rows if row.trait == "learning rate of every step"]
    assert (rate.status, rate.cells) == (TUNED, ("0.001", "0.1"))
    assert not any("forward" in row.trait for row in found.rows if row.status == TUNED)


def test_another_difference_is_still_found_at_different_chosen_values() -> None:
    tree = tuned_tree()
    tree["arms"]["residual"] |= {"train.batch": 4}
    plan = gradlab.plan(tree)
    assert plan.tuning is not None
    chosen = {"plain": plan.tuning.of("plain")[1], "residual": plan.tuning.of("residual")[3]}
    found = audit_plan(judge_at(plan, chosen))
    assert not found.fair
    assert "batch size" in " ".join(found.undeclared)


def test_an_arm_that_sets_the_tuned_path_itself_is_not_a_controlled_comparison() -> None:
    tree = tuned_tree()
    tree["arms"]["plain"] = {"train.lr": 0.01}
    found = gradlab.audit(tree)
    assert not found.fair
    undeclared = {fact.subject for fact in found.facts if fact.severity == "problem"}
    assert undeclared >= {"tuning of train.lr", "tuning trials"}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"log": [1e-3, 1e1], "points": 6}, "values tried of train.lr: 0.001 … 10.0 (6 values) in plain"),
        ([0.01, 0.1], "tuning trials: 4 in plain, 12 in residual; unequal budgets"),
    ],
)
def test_an_arm_with_another_range_is_not_a_controlled_comparison(values: Any, told: str) -> None:
    found = gradlab.audit(tuned_tree(arms={"plain": {"train.lr": values}}))
    assert not found.fair
    assert told in found.answer


def test_an_arm_may_list_the_common_values_for_itself() -> None:
    same = {"log": [1e-4, 1e1], "points": 6}
    assert gradlab.audit(tuned_tree(arms={"plain": {"train.lr": same}})).fair


def test_the_remark_about_one_learning_rate_for_all_arms_goes_when_the_rate_is_tuned() -> None:
    tree = tuned_tree()
    assert "shared_rate" not in {fact.code for fact in gradlab.audit(tree).facts}
    other = tuned_tree(**{"train.batch": [4, 8]})
    del other["tune"]["train.lr"]
    assert "shared_rate" in {fact.code for fact in gradlab.audit(other).facts}


@pytest.mark.parametrize(
    ("tune", "told"),
    [
        ({"budget": {"train.steps": 5}}, "chosen after 5 updates, in every arm, and judged after 20"),
        ({"seeds": 1}, "Tuned on one seed"),
    ],
)
def test_weaknesses_of_a_tuning_are_named(tune: dict[str, Any], told: str) -> None:
    assert any(told in limit for limit in gradlab.audit(tuned_tree(**tune)).limits)


def test_tuning_on_the_test_set_is_named() -> None:
    found = gradlab.audit("init-tuned", overrides=["tune.by=test_accuracy"], seeds=1)
    assert "tuned_on_test" in {fact.code for fact in found.facts}
    assert not any("test set" in limit for limit in gradlab.audit("init-tuned", seeds=1).limits)


def test_an_audit_keeps_its_tuning_when_it_is_stored() -> None:
    found = gradlab.audit(tuned_tree())
    assert Audit.from_json(found.to_json()).answer == found.answer

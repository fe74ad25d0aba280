"""The plan of a study that tunes: candidates, two states, ids, seeds of their own, and back from its saved form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tuned import tuned_tree

import gradlab
from gradlab.plans.freezing import frozen
from gradlab.plans.plan import Plan
from gradlab.plans.saving import phase_ids, restored, saved, trial_ids
from gradlab.plans.tuning import TuningPlan, judge_at, judged_phase
from gradlab.spec import files
from gradlab.trials.setup import prepare


def planned(**tune: Any) -> tuple[Plan, TuningPlan]:
    plan = gradlab.plan(tuned_tree(**tune))
    assert plan.tuning is not None
    return plan, plan.tuning


def at(plan: Plan, **places: int) -> Plan:
    assert plan.tuning is not None
    return judge_at(plan, {arm: plan.tuning.of(arm)[place] for arm, place in places.items()})


def test_every_arm_is_tried_at_the_same_values_with_as_many_trials() -> None:
    _, tuning = planned()
    values = {arm: [candidate.values for candidate in tuning.of(arm)] for arm in ("plain", "residual")}
    assert values["plain"] == values["residual"]
    assert len(tuning.plan.trials) == 2 * 6 * 2
    counts = {arm: sum(trial.group.startswith(arm) for trial in tuning.plan.trials) for arm in values}
    assert counts == {"plain": 12, "residual": 12}


def test_several_paths_make_a_full_grid() -> None:
    _, tuning = planned(**{"train.lr": [0.1, 0.2, 0.3], "train.batch": [4, 8]})
    points = [tuple(candidate.values.values()) for candidate in tuning.of("plain")]
    assert points == [(0.1, 4), (0.1, 8), (0.2, 4), (0.2, 8), (0.3, 4), (0.3, 8)]


def test_a_random_search_has_the_stated_size_and_the_same_points_in_every_arm() -> None:
    search = {"train.lr": {"log": [1e-4, 1.0]}, "train.batch": [4, 8], "search": {"random": 12}}
    _, tuning = planned(**search)
    points = [candidate.values for candidate in tuning.of("plain")]
    assert points == [candidate.values for candidate in tuning.of("residual")]
    assert len(points) == 12
    assert all(1e-4 <= point["train.lr"] <= 1.0 and point["train.batch"] in (4, 8) for point in points)
    _, longer = planned(**{**search, "search": {"random": 20}})
    assert [candidate.values for candidate in longer.of("plain")][:12] == points
    other = gradlab.plan({**tuned_tree(**search), "seed": 1}).tuning
    assert other is not None
    assert [candidate.values for candidate in other.of("plain")] != points


def test_no_tuning_trial_shares_its_seed_its_id_or_its_draws_with_a_judged_one() -> None:
    plan, tuning = planned()
    judged = judged_phase(at(plan, plain=2, residual=2))
    assert {trial.seed for trial in tuning.plan.trials}.isdisjoint(trial.seed for trial in judged.trials)
    assert {trial.id for trial in tuning.plan.trials}.isdisjoint(trial.id for trial in judged.trials)
    same = next(trial for trial in tuning.plan.trials if trial.group == "plain, lr=0.01")
    (first, *_) = [trial for trial in judged.trials if trial.group == "plain"]
    a, b = prepare(same), prepare(first)
    assert a.trial.config.train == b.trial.config.train
    drawn = a.theta != 0
    assert (a.theta[drawn] != b.theta[drawn]).all()
    assert (a.order(0) != b.order(0)).any()


def test_a_pending_plan_has_ids_that_no_trial_can_have() -> None:
    plan, tuning = planned()
    judged = at(plan, plain=0, residual=5)
    assert plan.pending
    assert not judged.pending
    assert {trial.id for trial in plan.trials}.isdisjoint(trial.id for trial in judged_phase(judged).trials)
    assert {trial.id for trial in plan.trials}.isdisjoint(trial.id for trial in tuning.plan.trials)
    assert [group.config.train.lr for group in judged.groups] == [1e-4, 1e1]


def test_an_arm_whose_best_value_is_that_of_the_base_is_trained_once() -> None:
    plan, _ = planned()
    phase = judged_phase(at(plan, plain=2, residual=3))
    assert [trial.group for trial in phase.trials].count("plain, untuned") == 0
    assert [trial.group for trial in phase.trials].count("residual, untuned") == 2
    without, _ = planned(untuned=False)
    assert len(judged_phase(at(without, plain=2, residual=3)).trials) == 4


def test_what_is_frozen_does_not_depend_on_the_choice_but_on_every_value_tried() -> None:
    plan, _ = planned()
    assert frozen(plan) == frozen(at(plan, plain=1, residual=4))
    wider, _ = planned(**{"train.lr": {"log": [1e-5, 1e1], "points": 7}})
    assert frozen(wider)["id"] != frozen(plan)["id"]
    more, _ = planned(seeds=3)
    assert frozen(more)["id"] != frozen(plan)["id"]


def test_a_wider_range_keeps_the_ids_of_the_values_it_shares() -> None:
    _, narrow = planned()
    _, wide = planned(**{"train.lr": {"log": [1e-5, 1e1], "points": 7}})
    assert {trial.id for trial in narrow.plan.trials} < {trial.id for trial in wide.plan.trials}


@pytest.mark.parametrize("chosen", [False, True])
def test_a_saved_plan_is_rebuilt_exactly(chosen: bool) -> None:
    plan, _ = planned(**{"train.lr": {"log": [1e-4, 1.0]}, "search": {"random": 5}})
    plan = at(plan, plain=3, residual=1) if chosen else plan
    tree = json.loads(json.dumps(saved(plan)))
    again = restored(tree, files.resolve(tree["tree"], "saved"))
    assert again.pending == plan.pending
    assert [(t.id, t.name, t.config) for t in again.all_trials] == [(t.id, t.name, t.config) for t in plan.all_trials]
    assert again.groups == plan.groups
    assert frozen(again) == frozen(plan)
    assert set(trial_ids(tree)) == {trial.id for trial in plan.all_trials}
    assert len(phase_ids(tree, "tuning")) == 20


def test_an_edge_is_the_smallest_or_largest_number_and_words_have_none() -> None:
    plan, _ = planned(**{"train.batch": ["full", 8]})
    judged = at(plan, plain=0, residual=4)
    assert judged.tuning is not None
    assert judged.tuning.edges == {"plain": ("train.lr",)}


def test_every_point_of_a_grid_is_tuned_by_itself() -> None:
    tree = tuned_tree(**{"train.lr": [0.1, 0.2]})
    tree |= {"arms": None, "axes": {"model.depth": [2, 3], "model.skip": ["none", "identity"]}, "claims": []}
    plan = gradlab.plan({**tree, "factor": ["model.depth", "model.skip"]})
    assert plan.tuning is not None
    assert plan.tuning.arms == tuple(group.group.name for group in plan.groups)
    judged = judge_at(plan, {arm: plan.tuning.of(arm)[place % 2] for place, arm in enumerate(plan.tuning.arms)})
    assert [group.config.train.lr for group in judged.groups] == [0.1, 0.2, 0.1, 0.2]
    assert [group.group.settings for group in judged.groups] == [group.group.settings for group in plan.groups]


def test_tuning_trials_measure_no_layers_and_train_as_long_as_the_arms_or_as_stated() -> None:
    plan, tuning = planned()
    assert {group.cost.steps for group in tuning.plan.groups} == {group.cost.steps for group in plan.groups}
    assert all(group.config.measure.layers == () for group in tuning.plan.groups)
    _, short = planned(budget={"train.steps": 5})
    assert {group.cost.steps for group in short.plan.groups} == {5}


def test_plans_of_studies_that_tune_nothing_are_what_they_were() -> None:
    tree = tuned_tree()
    del tree["tune"]
    plan = gradlab.plan(tree)
    assert plan.tuning is None
    assert plan.all_trials == plan.trials
    assert "tuning" not in saved(plan)
    assert "tuning" not in frozen(plan)

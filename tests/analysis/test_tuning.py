"""Which value a tuning chooses, and that a verdict at the edge of the range is not settled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from tuned import planted_records, tuned_tree

import gradlab
from gradlab.analysis.tuning import Tuning, choose, settle, tuning_of
from gradlab.trials.trial import Trial

VALUES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1)


def tuned(loss: Callable[[Trial], float | str], **tune: Any) -> Tuning:
    """A tuning in which every trial has this loss."""
    plan = gradlab.plan(tuned_tree(**tune))
    assert plan.tuning is not None
    found = tuning_of(plan, planted_records(plan.tuning.plan, loss))
    assert found is not None
    return found


def best(found: Tuning) -> dict[str, Any]:
    return {arm: candidate.values["train.lr"] for arm, candidate in choose(found).items()}


def rate(trial: Trial) -> float:
    return trial.config.train.lr


def distance(trial: Trial, peak: float) -> float:
    return abs(math.log10(rate(trial)) - math.log10(peak))


def test_the_planted_best_is_chosen_in_each_arm() -> None:
    peaks = {"plain": 1e-2, "residual": 1.0}
    assert best(tuned(lambda trial: 1 + distance(trial, peaks[trial.group.split(",")[0]]))) == peaks


def test_the_direction_is_that_of_the_metric() -> None:
    worst_first = tuned(lambda trial: 1 / (1 + distance(trial, 1e-2)))
    assert best(worst_first) == {"plain": 1e1, "residual": 1e1}


def test_a_diverged_trial_counts_as_worst_whatever_it_measured() -> None:
    found = tuned(lambda trial: "diverged" if rate(trial) == 1e-2 else 1 + distance(trial, 1e-2), seeds=1)
    assert best(found)["plain"] in (1e-3, 1e-1)
    (row,) = [row for row in found.rows() if row["arm"] == "plain" and row["train.lr"] == 1e-2]
    assert (row["median"], row["diverged"], row["chosen"]) == (math.inf, 1, False)


def test_the_median_decides_and_of_an_even_number_the_worse_of_the_two_in_the_middle() -> None:
    lucky = {1e-3: (0.1, 9.0, 9.0), 1e-2: (1.0, 1.0, 5.0)}
    found = tuned(lambda trial: lucky.get(rate(trial), (7.0,) * 3)[-trial.seed - 1], seeds=3)
    assert best(found)["plain"] == 1e-2
    even = {1e-3: (0.1, 2.0), 1e-2: (1.0, 1.0)}
    assert best(tuned(lambda trial: even.get(rate(trial), (7.0,) * 2)[-trial.seed - 1]))["plain"] == 1e-2


def test_ties_go_to_the_better_mean_then_to_the_value_that_is_listed_first() -> None:
    losses = {1e-3: (1.0, 1.0, 5.0), 1e-2: (1.0, 1.0, 3.0), 1e-1: (1.0, 1.0, 3.0)}
    found = tuned(lambda trial: losses.get(rate(trial), (7.0,) * 3)[-trial.seed - 1], seeds=3)
    assert best(found)["plain"] == 1e-2


def test_medians_that_are_equal_but_for_noise_are_ties() -> None:
    """Where the median network stays at chance, a value at which some seeds learn is better."""
    at_chance, some_learn = (2.3004, 2.3004, 2.3011), (0.9, 2.3006, 2.3007)
    losses = {1e-3: at_chance, 1e-2: some_learn}
    found = tuned(lambda trial: losses.get(rate(trial), (2.4,) * 3)[-trial.seed - 1], seeds=3)
    assert best(found)["plain"] == 1e-2
    apart = {1e-3: (2.0, 2.0, 2.0), 1e-2: (0.9, 2.1, 2.1)}
    found = tuned(lambda trial: apart.get(rate(trial), (2.4,) * 3)[-trial.seed - 1], seeds=3)
    assert best(found)["plain"] == 1e-3


def test_nothing_is_chosen_while_a_trial_has_no_result() -> None:
    plan = gradlab.plan(tuned_tree())
    assert plan.tuning is not None
    for missing in ("", "failed"):
        loss = lambda trial, told=missing: told if (trial.seed, rate(trial)) == (-2, 1e1) else 1.0  # noqa: E731
        records = planted_records(plan.tuning.plan, loss)
        assert settle(plan, records).pending
    assert not settle(plan, planted_records(plan.tuning.plan, lambda trial: rate(trial))).pending


def test_the_same_results_give_the_same_choice() -> None:
    plan = gradlab.plan(tuned_tree())
    assert plan.tuning is not None
    records = planted_records(plan.tuning.plan, lambda trial: 1 + distance(trial, 1e-1))
    first = settle(plan, records)
    assert settle(first, records) == first


@pytest.fixture(scope="module")
def at_the_edge() -> gradlab.Result:
    """Rates that are all too small: the largest is best."""
    tree = tuned_tree(**{"train.lr": [1e-5, 1e-4, 1e-3]})
    return gradlab.run({**tree, "seeds": 8}, executor="inline")


def test_a_verdict_that_rests_on_an_edge_is_not_settled_and_says_so(at_the_edge: gradlab.Result) -> None:
    (verdict,) = at_the_edge.verdicts
    assert verdict.outcome == "not settled"
    assert verdict.codes[0] == "tuned_at_edge"
    assert "residual (0.001)" in verdict.reason
    assert verdict.failed
    assert any("residual are not" in note for note in at_the_edge.story.notes)
    assert at_the_edge.tuning is not None
    chosen = at_the_edge.tuning[at_the_edge.tuning.chosen]
    assert chosen.edge.all()


def test_the_same_numbers_settle_a_claim_away_from_the_edge(at_the_edge: gradlab.Result) -> None:
    tree = tuned_tree(**{"train.lr": [1e-3]})
    (verdict,) = gradlab.run({**tree, "seeds": 8}, executor="inline").verdicts
    (open_one,) = at_the_edge.verdicts
    assert verdict.readings == open_one.readings
    assert verdict.outcome == "not reproduced"
    assert " not reproduced:" in open_one.reason


def test_no_tuning_trial_and_no_untuned_one_is_in_the_measured_results(at_the_edge: gradlab.Result) -> None:
    measured = at_the_edge.measured
    assert set(at_the_edge.trials().seed) == set(range(8))
    assert len(measured.trials) == 16
    assert {trial.group for trial in measured.trials} == {"plain", "residual"}

"""Results on their way back: packed into few arrays, and the same bits afterwards."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.runs.freight import Freight, load_results, unload_results
from gradlab.runs.monitor import Monitor
from gradlab.runs.worker import run_bundle
from gradlab.testing.trials import small_tree
from gradlab.trials.digest import digest
from gradlab.trials.result import TrialResult


def train(seeds: int = 3, **model: Any) -> list[TrialResult]:
    tree = {**small_tree(**model), "seeds": seeds, "measure": {"layers": ["start", "end"], "weights": ["start", "end"]}}
    return run_bundle(tuple(gradlab.plan(tree).trials), Monitor())


def travel(results: list[TrialResult]) -> list[TrialResult]:
    freight: Freight = pickle.loads(pickle.dumps(load_results(results), protocol=5))
    return unload_results(freight, {result.trial.id: result.trial for result in results})


def test_results_of_different_networks_arrive_with_the_same_bits() -> None:
    results = [*train(), *train(norm="batch"), *train(depth=2), *train()]
    assert any(kept.running for result in results if result.outcome for kept in result.outcome.snapshots)
    back = travel(results)
    assert [result.trial for result in back] == [result.trial for result in results]
    for before, after in zip(results, back, strict=True):
        assert before.outcome is not None
        assert after.outcome is not None
        assert digest(after.trial.id, after.outcome, after.error) == before.digest == after.digest
        assert after.outcome.metrics == before.outcome.metrics
        assert after.outcome.theta.size == 0
        for old, new in zip(before.outcome.snapshots, after.outcome.snapshots, strict=True):
            assert {name: tensor.shape for name, tensor in new.tensors.items()} == {
                name: tensor.shape for name, tensor in old.tensors.items()
            }


def test_failed_diverged_and_not_finite_results_arrive_as_they_were() -> None:
    first, second, third, fourth = train(2)
    assert second.outcome is not None
    assert third.outcome is not None
    values = second.outcome.layers.value.copy()
    values[:3] = np.nan, np.inf, -np.inf
    odd = replace(second, outcome=replace(second.outcome, layers=replace(second.outcome.layers, value=values)))
    curves = (replace(third.outcome.curves[0], steps=third.outcome.curves[0].steps + 1), *third.outcome.curves[1:])
    late = replace(third, outcome=replace(third.outcome, status="diverged", curves=curves))
    failed = TrialResult(fourth.trial, None, "ValueError: no", 0.5, digest(fourth.trial.id, None, "ValueError: no"))
    back = travel([first, odd, failed, late])
    assert [result.status for result in back] == ["done", "done", "failed", "diverged"]
    assert back[2] == failed
    found = [back[n].outcome for n in (1, 3)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].layers.value.tobytes() == values.tobytes()
    assert found[1].curves[0].steps.tolist() == curves[0].steps.tolist()


def test_a_result_that_nobody_asked_for_is_left_out_and_the_others_keep_their_numbers() -> None:
    results = train()
    wanted = results[1::2]
    freight = load_results(results)
    assert freight.ids == [result.trial.id for result in results]
    back = unload_results(freight, {result.trial.id: result.trial for result in wanted})
    for before, after in zip(wanted, back, strict=True):
        assert digest(after.trial.id, after.outcome, after.error) == before.digest
    assert unload_results(Freight(), {}) == []


@pytest.mark.parametrize("seeds", [4, 40])
def test_what_trials_share_travels_once(seeds: int) -> None:
    results = train(seeds)
    freight = load_results(results)
    assert len(freight.patterns) <= 2  # one per arm, whatever the number of seeds
    assert {vector.ndim for vector in (freight.vectors or {}).values()} == {1}

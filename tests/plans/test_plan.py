from __future__ import annotations

from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import gradlab
from gradlab.errors import StudyError
from gradlab.plans import cost
from gradlab.plans import plan as planning
from gradlab.plans.cost import measure_speed


def test_trials_are_paired_over_seeds_and_named(tree: dict[str, Any]) -> None:
    trials = gradlab.plan(tree).trials
    assert [(t.group, t.seed) for t in trials] == [("plain", 0), ("residual", 0), ("plain", 1), ("residual", 1)]
    assert trials[3].name == "residual · seed 1"
    assert len({t.id for t in trials}) == 4


def test_an_id_depends_on_the_content_of_a_trial_not_on_its_name(tree: dict[str, Any]) -> None:
    ids = {t.id for t in gradlab.plan(tree).trials}
    renamed = {**tree, "arms": {"a": {}, "b": tree["arms"]["residual"]}, "question": "Another?", "seeds": [1, 0]}
    assert {t.id for t in gradlab.plan(renamed).trials} == ids
    explicit = {**tree, "base": {**tree["base"], "model": {**tree["base"]["model"], "activation": "relu"}}}
    assert {t.id for t in gradlab.plan(explicit).trials} == ids
    for override in ("train.lr=0.02", "seed=1", "model.init.scale=2", "train.precision=float32", "data.samples=16"):
        assert not {t.id for t in gradlab.plan(tree, overrides=[override]).trials} & ids


def test_the_engines_numerics_version_is_part_of_the_id(tree: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from gradlab.engines.fused import Fused

    before = gradlab.plan(tree).trials[0].id
    monkeypatch.setattr(Fused, "numerics", Fused.numerics + 1)
    assert gradlab.plan(tree).trials[0].id != before


def test_ids_are_pinned() -> None:
    """An id that changes by accident would make finished trials run again."""
    assert gradlab.plan("identity", overrides=["seed=0"]).trials[0].id == PINNED


def test_the_cost_counts_the_planned_computation(tree: dict[str, Any]) -> None:
    plan = gradlab.plan(tree)
    result = gradlab.run(tree)
    assert plan.flops == result.trials()["flops"].sum()
    assert plan.groups[0].cost.parameters == 60
    assert plan.bytes > 0
    speed = measure_speed()
    assert plan.seconds(speed) > 0
    assert gradlab.plan(tree, seeds=20).seconds(speed) == pytest.approx(10 * plan.seconds(speed))


@pytest.mark.parametrize(
    "override",
    ["model.width=100000", "data.samples=900000000", "train.steps=100000000", "model.depth=10000", "train.batch=full"],
)
def test_a_trial_that_cannot_fit_in_memory_is_refused_by_the_plan(
    override: str, tree: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "available_bytes", lambda: 200_000)
    tree["base"]["data"]["samples"] = 1000
    with pytest.raises(StudyError, match="GiB"):
        gradlab.plan(tree, overrides=[override])


@pytest.mark.parametrize(
    "override",
    [
        "model.width=256",
        "data.samples=40000",
        "measure.probe.size=20000",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("train.steps=4000", "train.batch=20000")),
    ],
)
def test_the_memory_estimate_is_not_below_the_measured_peak(override: str, tree: dict[str, Any]) -> None:
    import tracemalloc

    from gradlab.engines.reference import Reference
    from gradlab.trials import prepare

    tree["base"]["data"] |= {"dim": 64, "samples": 20000}
    tree["base"]["model"] |= {"width": 64, "depth": 6, "stem": "linear", "head": "linear"}
    tree["measure"] = {"layers": ["start"], "probe": {"batch": "fresh"}}
    plan = gradlab.plan(tree, overrides=["train.steps=30", override])
    Reference().train(prepare(gradlab.plan(tree, overrides=["train.steps=1"]).trials[0]))  # imports, caches
    tracemalloc.start()
    Reference().train(prepare(plan.trials[0]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= plan.bytes <= 20 * peak


PINNED = "9be50129dd77abe1"


def test_the_speed_is_measured_on_one_blas_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def timed(action: object) -> float:
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return 1e-6

    monkeypatch.setattr(cost, "_time_best", timed)
    with threadpool_limits(2):
        measure_speed()
    assert seen
    assert set(seen) == {1}

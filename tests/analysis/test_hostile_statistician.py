"""Verdicts that a hostile statistician once broke, each through the public interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sweeps import ended, measured, mnist

import gradlab
from gradlab.analysis.claims import judge
from gradlab.errors import StudyError
from gradlab.testing.base import small_tree
from gradlab.trials.recorder import guessing_limit


def run(**sections: Any) -> gradlab.Result:
    tree = {**small_tree(), "measure": {"layers": []}, "figures": [], **sections}
    return gradlab.run(tree, executor="inline", figures=False)


def test_a_pool_with_a_cell_that_diverged_on_both_sides_says_so_and_settles_nothing() -> None:
    """∞ − ∞ once counted as no difference: the pool was equal to all digits, with p < 10⁻¹⁰."""
    claim = {"text": "The same", "metric": "final_loss", "op": "ratio", "value": [0.99, 1.01], "pooled": True}
    base = small_tree()["base"]
    base["model"] |= {"skip": "identity"}
    base["train"] |= {"optimizer": "sgd", "steps": 40}
    grid = {"axes": {"model.depth": [2, 3], "train.lr": [0.05, 1e6]}, "arms": None, "factor": []}
    (verdict,) = run(base=base, **grid, seeds=10, claims=[{**claim, "arms": ["depth=2", "depth=3"]}]).verdicts
    assert verdict.outcome == "not settled"
    (cell,) = verdict.readings[0].lost_cells
    assert (cell.seeds > 0, cell.planned) == (True, 10)
    assert cell.label in verdict.reason
    assert verdict.needs is None


def test_a_pool_with_a_cell_that_diverged_on_one_side_names_it() -> None:
    """The skip is 9 times better at the small rate and diverges at the large one: the pool rests on that cell."""
    axes = {"model.skip": ["none", "identity"], "train.lr": [0.05, 1.0]}
    claim = {"text": "t", "metric": "final_loss", "arms": ["skip=identity", "skip=none"], "op": ">", "pooled": True}
    draw = np.random.default_rng(0)

    def outcome(settings: Any, _seed: int) -> Any:
        skip = settings["model.skip"] == "identity"
        if skip and settings["train.lr"] == 1.0:
            return {"final_loss": float("inf")}, {}
        return {"final_loss": float((0.1 if skip else 0.9) * np.exp(0.05 * draw.standard_normal()))}, {}

    tree = mnist(axes=axes, factor=["model.skip", "train.lr"], claims=[claim])
    (verdict,) = judge(measured(tree, outcome, seeds=10))
    (cell,) = verdict.readings[0].one_sided
    assert (cell.seeds, cell.planned) == (10, 10)
    assert cell.label in verdict.reason


@pytest.mark.parametrize("pinned", [0, 1])
def test_code_that_fixes_the_seed_of_one_arm_settles_nothing(pinned: int) -> None:
    def train(seed: int, arm: int) -> dict[str, float]:
        draw = np.random.default_rng(42 if arm == pinned else seed)
        return {"loss": float(draw.random() + 0.1 + 5 * (arm == 0))}

    claim = {"text": "b is lower", "metric": "loss", "arms": ["b", "a"], "op": "<"}
    arms = {"a": {"arm": 0}, "b": {"arm": 1}}
    (verdict,) = gradlab.compare(train, arms, seeds=10, metric="loss", claims=[claim]).verdicts
    assert verdict.outcome == "not settled"
    assert verdict.readings[0].copies == 9


def test_two_arms_that_both_diverged_are_not_alike() -> None:
    claim = {"text": "t", "metric": "final_loss", "arms": ["a", "b"], "op": "ratio", "value": [0.99, 1.01]}
    arms = {"a": {}, "b": {"model.skip": "identity"}}
    tree = mnist(arms=arms, factor="model.skip", claims=[claim])
    (verdict,) = judge(ended(tree, "final_loss", {"a": ["diverged"] * 20, "b": ["diverged"] * 20}))
    assert verdict.outcome == "not settled"


def test_seeds_that_give_the_same_network_count_as_one_and_the_cause_is_named() -> None:
    """Zero init and full batches: every seed trains the same network."""
    base: dict[str, Any] = {
        "data": {"task": "mnist", "train": 60, "validation": 0, "test": 50},
        "model": {"depth": 2, "width": 4, "init": "zeros"},
        "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.1, "batch": 60, "epochs": 3},
    }
    claims = [
        {"text": "Plain ends high", "metric": "final_loss", "arms": "plain", "op": ">", "value": 1e-9},
        {"text": "A smaller rate ends higher", "metric": "final_loss", "arms": ["slow", "plain"], "op": ">"},
    ]
    arms = {"plain": {}, "slow": {"train.lr": 0.01}}
    result = run(base=base, arms=arms, factor="train.lr", seeds=10, claims=claims)
    for verdict in result.verdicts:
        assert verdict.outcome == "not settled"
        assert verdict.readings[0].estimate.n == 1
        assert verdict.readings[0].copies == 9
        assert "same_under_every_seed" in verdict.codes
        assert verdict.needs is None


def test_a_function_that_pins_its_own_seed_is_found_out() -> None:
    def train(seed: int, shift: float) -> dict[str, float]:
        return {"loss": 0.123456789 + shift}

    claim = {"text": "Lower", "metric": "loss", "arms": ["b", "a"], "op": "<"}
    result = gradlab.compare(train, {"a": {"shift": 0.5}, "b": {"shift": 0.0}}, seeds=10, claims=[claim])
    (verdict,) = result.verdicts
    assert (verdict.outcome, verdict.readings[0].copies) == ("not settled", 9)


def test_some_seeds_that_are_copies_are_dropped_and_dead_networks_are_not() -> None:
    def repeated(settings: Any, seed: int) -> tuple[dict[str, float], dict[str, list[float]]]:
        return {"initial_loss": 2.3025850929 + seed % 3, "final_loss": 0.1234567891 + seed % 3}, {}

    def dead(settings: Any, seed: int) -> tuple[dict[str, float], dict[str, list[float]]]:
        return {"initial_loss": 0.0 if seed < 3 else 1.0 + seed, "final_loss": 0.0 if seed < 3 else 0.5 + seed}, {}

    axes = {"model.depth": [2, 3]}
    copies = measured(mnist(axes=axes), repeated, seeds=6).copies
    assert all(group == {3: 0, 4: 1, 5: 2} for group in copies.values())
    assert all(group == {} for group in measured(mnist(axes=axes), dead, seeds=6).copies.values())


def test_two_sides_that_are_equal_in_every_seed_ask_for_no_more_seeds() -> None:
    claim = {"text": "t", "metric": "test_accuracy", "arms": ["a", "b"], "op": ">"}
    arms = {"a": {}, "b": {"model.skip": "identity"}}
    values = [0.5, 0.6, 0.7, 0.8, 0.9, 0.55]
    (verdict,) = judge(
        ended(mnist(arms=arms, factor="model.skip", claims=[claim]), "test_accuracy", {"a": values, "b": values})
    )
    assert (verdict.outcome, verdict.needs) == ("not settled", None)
    assert verdict.readings[0].equal


def test_seeds_that_are_added_in_front_do_not_become_the_first(tmp_path: Path) -> None:
    tree = {**small_tree(), "measure": {"layers": []}, "figures": [], "seeds": [1000, 1001, 1002]}
    gradlab.run(tree, out=tmp_path / "run", executor="inline", figures=False)
    result = gradlab.run(
        {**tree, "seeds": [998, 1000, 1001, 999, 1002]}, out=tmp_path / "run", executor="inline", figures=False
    )
    order = [1000, 1001, 1002, 998, 999]
    assert list(result.measured.planned_seeds["plain"]) == order
    assert list(result.measured.sample("final_loss", "plain").ends) == order
    opened = gradlab.open_run(tmp_path / "run")
    assert list(opened.measured.planned_seeds["plain"]) == order


@pytest.mark.parametrize(
    ("share", "rows", "accuracy", "collapsed"),
    [
        (0.1135, 10_000, 0.1135, True),
        (0.1135, 10_000, 0.13, False),
        (0.5, 1000, 0.73, False),
        (0.5, 1000, 0.53, True),
        (0.5, 20, 0.7, True),
        (0.9, 100, 0.9, True),
    ],
)
def test_collapsed_means_not_better_than_the_most_common_class(
    share: float, rows: int, accuracy: float, collapsed: bool
) -> None:
    """1.5 times chance once called 73 % of two classes `at chance`."""
    assert (accuracy <= guessing_limit(share, rows)) == collapsed


def test_a_classifier_of_two_classes_that_learns_a_little_has_not_collapsed() -> None:
    base: dict[str, Any] = {
        "data": {"task": "moons", "samples": 400, "test": 200},
        "model": {"depth": 1, "width": 4},
        "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.05, "batch": 100, "epochs": 8},
    }
    result = run(base=base, arms=None, factor=[], axes={"model.depth": [1, 2]}, seeds=4)
    for group in result.measured.group_names:
        accuracies = result.measured.values("test_accuracy", group)
        flags = result.measured.values("collapsed", group)
        assert {seed: int(value <= 0.6) for seed, value in accuracies.items() if value is not None} == flags


def test_a_study_may_say_which_claim_it_is_made_for() -> None:
    arms = {"a": {}, "b": {"model.skip": "identity"}}
    clear = {"text": "primary", "metric": "test_accuracy", "arms": ["a", "b"], "op": ">", "primary": True}
    others = [{"text": f"{i}", "metric": "test_accuracy", "arms": ["b", "a"], "op": ">"} for i in range(9)]
    high, low = [0.90, 0.91, 0.92, 0.93, 0.94], [0.5, 0.52, 0.51, 0.53, 0.54]
    tree = mnist(arms=arms, factor="model.skip", claims=[clear, *others])
    verdicts = judge(ended(tree, "test_accuracy", {"a": high, "b": low}))
    assert (verdicts[0].outcome, verdicts[0].level) == ("reproduced", 0.05)
    assert verdicts[1].outcome == "not settled"  # five pairs are not enough among nine claims
    equal = judge(ended(tree, "test_accuracy", {"a": high, "b": high}))
    assert [verdict.level for verdict in equal] == [0.05] + [0.0] * 9


def test_one_arm_can_be_declared_symmetric() -> None:
    claim = {"text": "t", "metric": "test_accuracy", "arms": "a", "op": ">", "value": 0.5}
    arms = {"a": {}, "b": {"model.skip": "identity"}}
    values = [0.90, 0.91, 0.92, 0.93, 0.94]
    for assume, outcome in ((None, "not settled"), ("symmetric", "reproduced")):
        tree = mnist(arms=arms, factor="model.skip", claims=[{**claim, "assume": assume}])
        (verdict,) = judge(ended(tree, "test_accuracy", {"a": values, "b": values}))
        assert verdict.outcome == outcome
    pair = {**claim, "arms": ["a", "b"], "value": None, "assume": "symmetric"}
    with pytest.raises(StudyError, match="assume"):
        gradlab.plan(mnist(arms=arms, factor="model.skip", claims=[pair]))

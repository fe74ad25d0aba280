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
from gradlab.trials.metrics import guessing_limit


def run(**sections: Any) -> gradlab.Result:
    tree = {**small_tree(), "measure": {"layers": []}, "figures": [], **sections}
    return gradlab.run(tree, executor="inline", figures=False)


ZEROS: dict[str, Any] = {
    "data": {"task": "mnist", "train": 60, "validation": 0, "test": 50},
    "model": {"depth": 2, "width": 4, "init": "zeros"},
    "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.1, "batch": 60, "epochs": 3},
}
"""Zero init and full batches: every seed trains the same network."""


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
    (cell,) = verdict.readings[0].diverged_cells
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


def test_a_pool_of_one_arm_and_a_grid_say_which_cells_diverged() -> None:
    """A diverged network counts as an accuracy of 0: a mean over cells has to say whose it is."""
    claims = [
        {"text": "t", "metric": "test_accuracy", "arms": "skip=none", "op": "<", "value": 0.9, "pooled": True},
        {"text": "t", "metric": "test_accuracy", "effects": ["lr", "skip"], "op": ">"},
    ]
    base = {
        "data": {"task": "moons", "samples": 200, "test": 100},
        "model": {"depth": 3, "width": 8},
        "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.05, "batch": 50, "epochs": 4},
    }
    axes = {"model.skip": ["none", "identity"], "train.lr": [0.05, 1e6]}
    for verdict in run(base=base, axes=axes, arms=None, factor=[], seeds=6, claims=claims).verdicts:
        cells = verdict.readings[-1].diverged_cells
        assert cells
        assert all("10⁶" in cell.label and cell.planned == 6 for cell in cells)
        assert cells[0].label in verdict.reason


def test_two_arms_that_both_diverged_are_not_alike() -> None:
    claim = {"text": "t", "metric": "final_loss", "arms": ["a", "b"], "op": "ratio", "value": [0.99, 1.01]}
    arms = {"a": {}, "b": {"model.skip": "identity"}}
    tree = mnist(arms=arms, factor="model.skip", claims=[claim])
    (verdict,) = judge(ended(tree, "final_loss", {"a": ["diverged"] * 20, "b": ["diverged"] * 20}))
    assert verdict.outcome == "not settled"


def test_seeds_that_give_the_same_network_count_as_one_and_the_cause_is_named() -> None:
    claims = [
        {
            "text": "Plain ends high",
            "metric": "final_loss",
            "arms": "plain",
            "op": ">",
            "value": 1e-9,
            "published": "2",
        },
        {"text": "A smaller rate ends higher", "metric": "final_loss", "arms": ["slow", "plain"], "op": ">"},
    ]
    arms = {"plain": {}, "slow": {"train.lr": 0.01}}
    result = run(base=ZEROS, arms=arms, factor="train.lr", seeds=10, claims=claims)
    assert [row.outcome for row in result.verdicts[0].numbers] == ["not settled"]
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


@pytest.mark.parametrize(
    ("metric", "returned"),
    [
        ("loss", lambda seed: {"loss": 0.123456789, "seed": seed}),
        ("accuracy", lambda seed: {"accuracy": 0.25, "seed": seed}),
        ("loss", lambda seed: {"loss": 0.123456789, "clock": 1e9 + seed / 7}),
    ],
)
def test_a_pinned_seed_does_not_hide_behind_another_number_that_varies(metric: str, returned: Any) -> None:
    def train(seed: int, shift: float) -> dict[str, float]:
        numbers = returned(seed)
        return {**numbers, metric: numbers[metric] + shift}

    claims = [
        {"text": "t", "metric": metric, "arms": ["b", "a"], "op": "<"},
        {"text": "t", "metric": metric, "arms": "a", "op": "<", "value": 0.9, "published": "0.7"},
    ]
    arms = {"a": {"shift": 0.5}, "b": {"shift": 0.0}}
    for verdict in gradlab.compare(train, arms, seeds=12, metric=metric, claims=claims).verdicts:
        assert (verdict.outcome, verdict.readings[0].copies) == ("not settled", 11)
        assert [row.outcome for row in verdict.numbers] in ([], ["not settled"])


def test_seeds_that_share_a_few_networks_count_as_these() -> None:
    def train(seed: int, arm: int, networks: int) -> dict[str, float]:
        return {"loss": float(np.random.default_rng(seed % networks).random() + 5 * arm)}

    claim = {"text": "t", "metric": "loss", "arms": ["a", "b"], "op": "<"}
    for networks, outcome in ((2, "not settled"), (10, "reproduced")):
        arms = {"a": {"arm": 0, "networks": networks}, "b": {"arm": 1, "networks": networks}}
        (verdict,) = gradlab.compare(train, arms, seeds=12, metric="loss", claims=[claim]).verdicts
        assert (verdict.outcome, verdict.readings[0].estimate.n) == (outcome, networks)
        assert f"{12 - networks} seeds gave the same numbers as an earlier one" in verdict.reason


def test_effects_of_copies_are_those_of_one_network() -> None:
    claim = {"text": "t", "metric": "final_loss", "effects": ["lr", "depth"], "op": ">"}
    axes = {"train.lr": [0.01, 0.1, 1.0], "model.depth": [2, 3]}
    (verdict,) = run(base=ZEROS, axes=axes, arms=None, factor=[], seeds=10, claims=[claim]).verdicts
    assert (verdict.outcome, verdict.readings[-1].copies, verdict.readings[-1].estimate.n) == ("not settled", 9, 1)


def test_a_cell_of_copies_leaves_the_pool_its_other_cells() -> None:
    """The pool varies with the seed as long as one of its cells does; once it was an error."""
    claim = {"text": "t", "metric": "final_loss", "arms": ["lr=0.01", "lr=0.1"], "op": ">", "pooled": True}
    axes = {"train.lr": [0.01, 0.1], "model.init": ["zeros", "he_normal"]}
    (verdict,) = run(base=ZEROS, axes=axes, arms=None, factor=[], seeds=10, claims=[claim]).verdicts
    assert (verdict.outcome, verdict.readings[0].estimate.n) == ("reproduced", 10)


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


@pytest.mark.parametrize(("seeds", "claims", "settled"), [(3, 1, 0), (3, 10, 0), (5, 1, 1), (5, 10, 0), (10, 10, 10)])
def test_few_pairs_that_differ_equally_settle_nothing_among_many_claims(seeds: int, claims: int, settled: int) -> None:
    """Collapsed networks give equal large differences by chance; t has no bound, so a smaller level did not help."""
    claim = {"metric": "test_accuracy", "arms": ["a", "b"], "op": ">"}
    arms = {"a": {}, "b": {"model.skip": "identity"}}
    tree = mnist(arms=arms, factor="model.skip", claims=[{**claim, "text": f"{i}"} for i in range(claims)])
    verdicts = judge(ended(tree, "test_accuracy", {"a": [0.97] * seeds, "b": [0.1] * seeds}))
    assert [verdict.outcome for verdict in verdicts].count("reproduced") == settled


@pytest.mark.parametrize("size", [1e-170, 1e-300, 1e170, 1e300])
def test_numbers_whose_squares_are_none_are_compared(size: float) -> None:
    def train(seed: int, shift: float) -> dict[str, float]:
        number = size * (0.25 + shift) * (1 + float(np.random.default_rng(seed).random()))
        return {"loss": number, "x": number, "delta": -number}

    claims = [
        {"text": "t", "metric": "loss", "arms": ["b", "a"], "op": "<", "published": "0.33"},
        {"text": "t", "metric": "x", "arms": ["b", "a"], "op": "<"},
        {"text": "t", "metric": "delta", "arms": "a", "op": "<", "value": 0.0, "assume": "symmetric"},
    ]
    result = gradlab.compare(train, {"a": {"shift": 0.5}, "b": {"shift": 0.0}}, seeds=10, metric="loss", claims=claims)
    assert [verdict.outcome for verdict in result.verdicts] == ["reproduced"] * 3


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

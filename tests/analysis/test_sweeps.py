"""Analyses of sweeps: axes, shares, collapse, convergence, Pareto frontiers, effects, findings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from sweeps import GRID, measured, mixture, mnist

import gradlab
from gradlab.analysis.claims import judge
from gradlab.analysis.comparison import best_of, collapse_of, convergence_of, frontier, offers
from gradlab.analysis.effects import axes_of, axis_view, cell_numbers, effects_of
from gradlab.errors import StudyError
from gradlab.tell.findings import findings

Numbers = Mapping[str, float | int | None]


def test_an_axis_is_chosen_and_its_groups_ordered() -> None:
    found = measured(mnist(axes={"model.skip": ["none", "identity"], "model.depth": [30, 2, 5]}), plain_numbers)
    assert axes_of(found) == {"model.skip": ("none", "identity"), "model.depth": (2, 5, 30)}
    view = axis_view(found)
    assert view is not None
    assert (view.path, view.name, view.values, view.numeric, view.by_ratio) == (
        "model.depth", "depth", (2, 5, 30), True, True,
    )  # fmt: skip
    assert [series.label for series in view.series] == ["skip=none", "skip=identity"]
    assert view.series[0].points[0] == (2, "skip=none, depth=2")
    words = axis_view(found, "model.skip")
    assert words is not None
    assert (words.numeric, words.place("identity"), words.labels) == (False, 1.0, ("none", "identity"))
    assert axis_view(found, "train.lr") is None
    assert axis_view(measured(mnist(), plain_numbers)) is None


def plain_numbers(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, dict[str, list[float]]]:
    return {"test_accuracy": 0.5, "final_loss": 1.0, "seconds_per_epoch": 1.0, "collapsed": 0}, {}


def test_a_mixture_is_told_by_share_median_and_escapes() -> None:
    found = measured(mnist(axes=GRID), mixture)
    deep = collapse_of(found, "depth=30, skip=none")
    assert deep is not None
    assert (deep.share.count, deep.share.n, deep.median, deep.escapes, deep.mixed) == (4, 5, 0.1, (3,), True)
    calm = collapse_of(found, "depth=2, skip=none")
    assert calm is not None
    assert (calm.share.count, calm.escapes, calm.mixed) == (0, (1,) * 5, False)


def test_a_regression_has_nothing_to_collapse(tree: dict[str, Any]) -> None:
    result = gradlab.run(tree)
    assert collapse_of(result.measured, "plain") is None
    assert "chance" not in findings(result.measured)


def test_a_seed_that_never_arrives_is_censored_not_left_out() -> None:
    target = {"measure": {"target": {"metric": "test_accuracy", "value": 0.8}}}

    def outcome(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, dict[str, list[float]]]:
        late = None if seed >= settings["model.depth"] else 4 + 2 * seed
        epochs = None if late is None else late / 2
        return {"steps_to_target": late, "epochs_to_target": epochs, "seconds_per_epoch": 0.5, "test_accuracy": 0.8}, {}

    found = measured(mnist(axes={"model.depth": [1, 3, 5]}, **target), outcome)
    never, half, always = (convergence_of(found, f"depth={d}") for d in (1, 3, 5))
    assert never is not None
    assert half is not None
    assert always is not None
    assert (never.reached.count, never.steps, never.seconds) == (1, math.inf, math.inf)
    assert (half.reached.count, half.steps, half.epochs, half.seconds) == (3, 8, 4, 2.0)
    assert (always.reached.count, always.steps) == (5, 8)
    text = findings(found)
    assert "1 layer in 1 of 5 seeds" in text
    assert "5 layers after 4 epochs, 2 s" in text
    assert convergence_of(measured(mnist(), plain_numbers), "all") is None


def test_the_frontier_is_what_nothing_beats_in_both_ways() -> None:
    price = {1: (1.0, 0.5), 2: (2.0, 0.7), 3: (3.0, 0.6), 4: (4.0, 0.9), 5: (4.0, 0.9), 6: (5.0, 0.9)}

    def outcome(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, dict[str, list[float]]]:
        seconds, accuracy = price[settings["model.depth"]]
        return {
            "test_accuracy": accuracy,
            "seconds_per_epoch": seconds,
            "flops": seconds * 10,
            "final_loss": -accuracy,
        }, {}

    found = measured(mnist(axes={"model.depth": list(price)}), outcome, seeds=2)
    best = frontier(offers(found, "test_accuracy", "seconds_per_epoch"))
    assert [offer.group for offer in best] == ["depth=1", "depth=2", "depth=4", "depth=5"]
    assert [offer.group for offer in frontier(offers(found, "final_loss", "flops"))] == [offer.group for offer in best]
    assert offers(found, "test_accuracy", "total_seconds")[0].cost == 3.0  # three epochs


def test_effects_and_interactions_of_a_known_grid_are_found() -> None:
    """y = 4a + b + 2ab + c·0 with a, b, c = ±1: mean squares 16, 1, 4 and 0."""

    def outcome(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, dict[str, list[float]]]:
        a, b = (1 if settings[path] == high else -1 for path, high in (("model.depth", 5), ("model.width", 8)))
        return {"test_accuracy": 4 * a + b + 2 * a * b + 0.1 * (seed - 2)}, {}

    axes = {"model.depth": [2, 5], "model.width": [4, 8], "train.lr": [0.1, 0.2]}
    found = effects_of(measured(mnist(axes=axes), outcome), "test_accuracy")
    assert found is not None
    assert [(main.path, round(main.share * 21, 9)) for main in found.mains] == [
        ("model.depth", 16), ("model.width", 1), ("train.lr", 0),
    ]  # fmt: skip
    assert found.interactions[0].paths == ("model.depth", "model.width")
    assert found.interactions[0].share == pytest.approx(4 / 21)
    assert found.rest == pytest.approx(0, abs=1e-12)
    assert [level.value for level in found.mains[0].centers] == [pytest.approx(-4), pytest.approx(4)]
    assert (found.mains[0].range.value, found.mains[0].range.low) == (pytest.approx(8), pytest.approx(7.9, abs=0.1))
    assert found.mains[0].component.value == pytest.approx(16)
    assert (found.left_out, found.diverged) == (0, 0)


def test_noise_alone_has_no_effect_on_average() -> None:
    """The range of means over levels is never negative, and grows with the number of levels."""
    rng, found = np.random.default_rng(0), []
    for _ in range(60):
        noise = iter(rng.standard_normal(2 * 6 * 4).tolist())
        axes = {"model.depth": [2, 5], "model.width": [1, 2, 3, 4, 5, 6]}
        sweep = measured(mnist(axes=axes), lambda settings, seed, noise=noise: ({"test_accuracy": next(noise)}, {}), 4)
        effects = effects_of(sweep, "test_accuracy")
        assert effects is not None
        found.append({main.path: main.component.value for main in effects.mains})
    for path, scale in (("model.depth", 0.0009), ("model.width", 0.0009)):
        values = [row[path] for row in found]
        assert min(values) < 0
        assert abs(np.mean(values)) < 3 * np.std(values) / math.sqrt(len(values)) + scale


def test_factors_that_act_together_are_told_by_level() -> None:
    def outcome(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, dict[str, list[float]]]:
        a, b = (1 if settings[path] == high else -1 for path, high in (("model.depth", 5), ("model.width", 8)))
        return {"test_accuracy": 0.5 + 0.1 * a + 0.1 * a * b + 0.001 * ((seed * 3 + a) % 5)}, {}

    found = effects_of(measured(mnist(axes={"model.depth": [2, 5], "model.width": [4, 8]}), outcome), "test_accuracy")
    assert found is not None
    depth = {c.level: c.range.value for c in found.conditional if c.path == "model.depth"}
    assert depth == {"4": pytest.approx(0.0, abs=0.01), "8": pytest.approx(0.4, abs=0.01)}


def test_what_is_no_full_grid_has_no_effects() -> None:
    assert effects_of(measured(mnist(axes={"model.depth": [2, 5]}), plain_numbers), "test_accuracy") is None
    arms = {"a": {}, "b": {"model.depth": 3}, "c": {"model.width": 4}}
    assert effects_of(measured(mnist(arms=arms), plain_numbers), "test_accuracy") is None

    def holes(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, dict[str, list[float]]]:
        return {"test_accuracy": None if settings["model.depth"] == 30 else 0.5}, {}

    assert effects_of(measured(mnist(axes=GRID), holes), "test_accuracy") is None


def test_the_best_group_is_named_with_those_it_is_not_settled_against() -> None:
    def outcome(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, dict[str, list[float]]]:
        noise = 0.01 * ((seed * 7 + settings["model.depth"]) % 5)
        return {"test_accuracy": {2: 0.9, 5: 0.901, 30: 0.5}[settings["model.depth"]] + noise}, {}

    found = measured(mnist(axes={"model.depth": [2, 5, 30]}), outcome, seeds=10)
    best = best_of(found, "test_accuracy")
    assert best is not None
    assert {best.group, *best.ties} == {"depth=2", "depth=5"}


def test_findings_follow_the_numbers_and_not_a_text() -> None:
    a = findings(measured(mnist(axes=GRID), mixture))
    b = findings(measured(mnist(axes=GRID), lambda s, seed: ({**mixture(s, seed)[0], "test_accuracy": 0.3}, {})))
    assert a != b


def test_effects_over_decades_are_taken_apart_on_logs() -> None:
    def outcome(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, dict[str, list[float]]]:
        a, b = settings["model.depth"] == 5, settings["model.width"] == 8
        return {"final_loss": (1000.0 if a else 1.0) * (2.0 if b else 1.0)}, {}

    found = effects_of(measured(mnist(axes={"model.depth": [2, 5], "model.width": [4, 8]}), outcome), "final_loss")
    assert found is not None
    assert found.logs
    assert found.mains[0].range.value == pytest.approx(3)
    assert found.size(found.mains[0].range.value) == "1,000×"
    assert found.interactions[0].share == pytest.approx(0, abs=1e-12)


def test_diverged_networks_are_counted_as_the_worst_there_is_and_not_as_chance() -> None:
    tree = mnist(axes={"model.depth": [2, 3], "train.lr": [0.01, 1e6]})
    tree["base"]["train"] |= {"epochs": 30}
    result = gradlab.run({"question": "Which?", **tree}, seeds=2)
    diverged = result.measured.counts()["diverged"]
    assert diverged > 0
    found = effects_of(result.measured, "test_accuracy")
    assert found is not None
    assert (found.seeds, found.left_out, found.diverged) == (2, 0, diverged)
    table = cell_numbers(result.measured, "test_accuracy", result.measured.group_names)
    assert sum(value == 0.0 for row in table.values() for value in row) >= diverged
    # a loss has no worst: it cannot be averaged
    assert effects_of(result.measured, "final_loss") is None

    def some(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, dict[str, list[float]]]:
        gone = seed == 1 and settings["model.depth"] == 2
        return {"test_accuracy": None if gone else 0.5 + 0.01 * settings["model.depth"]}, {}

    found = effects_of(measured(mnist(axes=GRID), some), "test_accuracy")
    assert found is not None
    assert (found.seeds, found.left_out) == (4, 1)


def test_a_network_that_rose_and_fell_back_did_not_escape() -> None:
    def outcome(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, dict[str, list[float]]]:
        curves = {0: [0.1, 0.3, 0.1], 1: [0.1, 0.1, 0.7]}.get(seed, [0.1, 0.1, 0.1])
        last = curves[-1]
        return {"test_accuracy": last, "collapsed": int(last < 0.15)}, {"test_accuracy": curves}

    found = measured(mnist(axes={"model.depth": [2, 30]}), outcome)
    collapse = collapse_of(found, found.group_names[0])
    assert collapse is not None
    assert (collapse.share.count, collapse.share.n, collapse.escapes) == (4, 5, (3,))


@pytest.mark.parametrize(
    ("accuracies", "outcome"),
    [
        ((0.5, 0.8, 0.85, 0.86), "reproduced"),
        ((0.5, 0.6, 0.8, 0.81), "not reproduced"),
        ((0.5, 0.6, 0.7, 0.7), "not settled"),
        ((0.9, 0.8, 0.5, 0.1), "reproduced"),  # each step gains less, the last ones lose
    ],
)
def test_returns_diminish_if_every_step_gains_less_than_the_one_before(
    accuracies: tuple[float, ...], outcome: str
) -> None:
    claim = {"text": "t", "metric": "test_accuracy", "op": "diminishing", "along": "width"}
    study = mnist(axes={"model.width": [4, 8, 16, 32]}, claims=[claim])
    study["base"]["data"]["test"] = 1000  # one row is far less than a gain

    def numbers(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, Any]:
        place = [4, 8, 16, 32].index(settings["model.width"])
        return {"test_accuracy": accuracies[place] + 0.002 * ((seed * 7 + place * 3) % 5)}, {}

    (verdict,) = judge(measured(study, numbers, seeds=10))
    assert verdict.outcome == outcome
    assert len(verdict.readings) == 5


def test_diminishing_returns_need_three_groups() -> None:
    claim = {"text": "t", "metric": "test_accuracy", "op": "diminishing", "along": "width"}
    with pytest.raises(StudyError, match="three groups"):
        gradlab.plan({"question": "q", **mnist(axes={"model.width": [4, 8]}, claims=[claim])})

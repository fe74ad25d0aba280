"""The causal chain: which groups, which link breaks, and when the numbers show no mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.analysis.measured import Measured
from gradlab.analysis.why import choose_pair, closed, why
from gradlab.runs.store.records import MemoryChunk, Records
from gradlab.trials.outcome import LayerTable, Outcome, TrialResult

LAYERS = 12
Profile = tuple[float, float]
"""Size in the first layer, and the factor from one layer to the next."""


def study(**sections: Any) -> dict[str, Any]:
    return {
        "question": "Does the skip help?",
        "factor": "model.skip",
        "base": {
            "data": {"task": "identity", "dim": 8, "samples": 16},
            "model": {"stem": "none", "head": "none", "depth": LAYERS, "width": 8, "init": "he_normal"},
            "train": {"loss": "mse", "optimizer": "sgd", "lr": 0.1, "batch": 8, "steps": 10},
        },
        "arms": {"plain": {}, "residual": {"model.skip": "identity"}},
        "headline": {"metric": "final_loss"},
        "measure": {"layers": ["start", 1, "end"]},
        **sections,
    }


def measured(
    profiles: Mapping[str, Mapping[str, Profile]], losses: Mapping[str, float], seeds: int = 8, **sections: Any
) -> Measured:
    """Every seed has the numbers that are given, a few percent around them."""
    plan = gradlab.plan(study(**sections), seeds=seeds)
    results = []
    for trial in plan.trials:
        noise = 1 + 0.02 * np.random.default_rng([trial.seed, len(trial.group)]).standard_normal()
        steps, layers, measures, values = [], [], [], []
        for name, (first, factor) in profiles[trial.group].items():
            measure, _, moment = name.partition("@")
            for layer in range(1, LAYERS + 1):
                steps.append({"": 0, "first": 1, "end": 10}[moment])
                layers.append(layer)
                measures.append(measure)
                values.append(first * factor ** (layer - 1) * noise)
        table = LayerTable(np.array(steps), np.array(layers), tuple(measures), np.array(values))
        numbers = {"initial_loss": 1.0 + trial.seed / 997, "final_loss": losses[trial.group] * noise}
        results.append(TrialResult(trial, Outcome("done", numbers, (), table, np.empty(0))))
    return Measured(plan, Records([MemoryChunk.of(results)]))


EVEN: dict[str, Profile] = {"activation_std.stream": (1, 1), "delta_l2": (1, 1), "grad_l2": (1, 1)}
ENDS = {"plain": 0.3, "residual": 0.06}


@pytest.mark.parametrize(
    ("plain", "code"),
    [
        ({"activation_std.stream": (1, 0.3)}, "vanishing_signal"),
        ({"activation_std.stream": (1, 3.0)}, "exploding_signal"),
        ({"delta_l2": (1e-7, 3.5)}, "vanishing_delta"),
        ({"delta_l2": (1e7, 0.3)}, "exploding_delta"),
        ({"activation_std.stream": (1, 0.78), "grad_l2": (0.01, 1)}, "falling_signal"),
        ({"activation_std.stream": (1, 0.78)}, "no_mechanism"),
        ({"delta_l2": (1, 0.78), "grad_l2": (50.0, 1)}, "growing_delta"),
        ({"grad_l2": (0.01, 1)}, "smaller_gradients"),
        ({"grad_l2": (5.0, 1)}, "no_mechanism"),
        ({"update_ratio@first": (1e-6, 1)}, "smaller_updates"),
        ({"dead_share@end": (0.9, 1)}, "dead_units"),
        ({}, "no_mechanism"),
    ],
)
def test_the_mechanism_is_the_link_that_breaks_in_the_arm_that_ends_worse(plain: dict[str, Profile], code: str) -> None:
    even = {**EVEN, "update_ratio@first": (1e-3, 1), "dead_share@end": (0.1, 1)}
    found = why(measured({"plain": {**even, **plain}, "residual": even}, ENDS))
    assert found is not None
    assert (found.code, found.affected, found.other) == (code, "plain", "residual")
    assert found.found == (code != "no_mechanism")


def test_every_link_has_an_interval_over_seeds_and_a_factor_per_layer() -> None:
    found = why(measured({"plain": {**EVEN, "activation_std.stream": (1, 0.5)}, "residual": EVEN}, ENDS))
    assert found is not None
    link = found.link("signal")
    assert link is not None
    each = link.per_layer("plain")
    assert each is not None
    assert (each.value, each.low, each.high) == pytest.approx((0.5, 0.5, 0.5), rel=0.01)
    assert link.layers["plain"] == LAYERS - 1
    assert link.arms["plain"].n == 8
    assert not link.arms["plain"].bounded
    assert found.first_break is link


def test_what_vanishes_in_the_better_arm_explains_nothing() -> None:
    arms = {"plain": EVEN, "residual": {**EVEN, "activation_std.stream": (1.0, 0.3)}}
    found = why(measured(arms, ENDS))
    assert found is not None
    assert (found.code, found.affected, found.found) == ("contrary", "residual", False)


def test_arms_that_end_alike_have_nothing_to_explain() -> None:
    found = why(measured({"plain": {**EVEN, "delta_l2": (1e-9, 6.0)}, "residual": EVEN}, dict.fromkeys(ENDS, 0.3)))
    assert found is not None
    assert found.code == "no_difference"


def test_four_seeds_show_no_mechanism_and_five_only_if_their_ranges_are_apart() -> None:
    arms = {"plain": {**EVEN, "delta_l2": (1e-9, 6.0)}, "residual": EVEN}
    codes = [found.code for seeds in (4, 5) if (found := why(measured(arms, ENDS, seeds)))]
    assert codes == ["too_few_seeds", "vanishing_delta"]
    found = why(measured(arms, dict.fromkeys(ENDS, 0.3), 5))
    assert found is not None
    assert found.code == "no_difference"


def test_without_a_look_inside_nothing_is_said_about_why() -> None:
    found = why(measured({"plain": {}, "residual": {}}, ENDS))
    assert found is not None
    assert found.code == "not_measured"


def test_gradients_that_updates_do_not_follow_are_no_mechanism() -> None:
    plain = {**EVEN, "grad_l2": (0.01, 1.0), "update_ratio@first": (2e-3, 1.0)}
    found = why(measured({"plain": plain, "residual": {**EVEN, "update_ratio@first": (1e-3, 1.0)}}, ENDS))
    assert found is not None
    assert found.code == "no_mechanism"


def test_of_a_grid_the_worst_group_is_held_against_one_that_differs_in_one_setting_of_the_factor() -> None:
    axes = {"model.init.scale": [1, 0.5], "model.skip": ["none", "identity"]}
    names = [f"scale={scale}, skip={skip}" for scale in ("1", "0.5") for skip in ("none", "identity")]
    losses = dict(zip(names, (0.3, 0.2, 0.5, 0.1), strict=True))
    found = measured(dict.fromkeys(names, EVEN), losses, arms=None, axes=axes, factor="model.skip")
    assert choose_pair(found) == ("scale=0.5, skip=none", "scale=0.5, skip=identity")


def test_the_share_of_a_gap_that_a_mended_arm_closes_is_taken_on_logs_of_losses() -> None:
    arms = {"affected": {}, "mended": {"model.norm": "layer"}, "other": {"model.skip": "identity"}}
    losses = {"affected": 1.0, "mended": 0.1, "other": 0.01}
    found = measured(dict.fromkeys(arms, EVEN), losses, arms=arms, factor=["model.skip", "model.norm"])
    share = closed(found, "mended", "affected", "other")
    assert share is not None
    assert share.value == pytest.approx(0.5, abs=0.02)


def test_a_claim_about_groups_that_a_reduced_study_lacks_is_passed_over() -> None:
    claim = {"text": "The deep one is better", "metric": "final_loss", "arms": ["depth=4", "depth=2"], "op": "<"}
    sections = {"arms": None, "axes": {"model.depth": [2, 3, 4]}, "factor": "model.depth", "claims": [claim]}
    tree = study(**sections, answers={"numbers": [1]}, quick={"axes.model.depth": [2, 3]}) | {"seeds": 2}
    assert choose_pair(gradlab.run(tree, quick=True, figures=False).measured) is not None

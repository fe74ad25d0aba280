"""The sentences about a study's numbers: what else they show, the answer, a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from sweeps import GRID, measured, mixture, mnist

from gradlab.analysis.comparison import Comparison
from gradlab.analysis.estimate import Estimate, times
from gradlab.tell.answers import answer, tell_comparison
from gradlab.tell.findings import findings

Outcome = tuple[Mapping[str, float | int | None], dict[str, list[float]]]
PRICE = {1: (1.0, 0.5), 2: (2.0, 0.7), 3: (3.0, 0.6), 4: (4.0, 0.9), 5: (4.0, 0.9), 6: (5.0, 0.9)}


def priced(settings: Mapping[str, Any], seed: int) -> Outcome:
    seconds, accuracy = PRICE[settings["model.depth"]]
    return {"test_accuracy": accuracy, "seconds_per_epoch": seconds, "flops": seconds * 10, "final_loss": -accuracy}, {}


def close(settings: Mapping[str, Any], seed: int) -> Outcome:
    noise = 0.01 * ((seed * 7 + settings["model.depth"]) % 5)
    return {"test_accuracy": {2: 0.9, 5: 0.901, 30: 0.5}[settings["model.depth"]] + noise}, {}


def with_a_hole(settings: Mapping[str, Any], seed: int) -> Outcome:
    gone = seed == 1 and settings["model.depth"] == 2
    return {"test_accuracy": None if gone else 0.5 + 0.01 * settings["model.depth"]}, {}


def fallen_back(settings: Mapping[str, Any], seed: int) -> Outcome:
    curves = {0: [0.1, 0.3, 0.1], 1: [0.1, 0.1, 0.7]}.get(seed, [0.1, 0.1, 0.1])
    return {"test_accuracy": curves[-1], "collapsed": int(curves[-1] < 0.15)}, {"test_accuracy": curves}


@pytest.mark.parametrize(
    ("axes", "outcome", "seeds", "sentence"),
    [
        (
            GRID,
            mixture,
            5,
            "Ended at chance: 30 layers, no skip 4 of 5 (16–100 %), median 0.100, the other escaped after epoch 3.",
        ),
        (GRID, mixture, 5, "Medians from depth 2 to 30: no skip 0.900 → 0.100; skip 0.900 → 0.900."),
        (
            {"model.depth": list(PRICE)},
            priced,
            2,
            "Pareto-optimal (accuracy vs. seconds per epoch): 4 of 6 groups: 1 layer; 2 layers; 4 layers; 5 layers",
        ),
        ({"model.depth": [2, 5, 30]}, close, 10, "; not settled against 2 layers."),
        ({"model.depth": [2, 5]}, close, 1, " (one seed: nothing is settled)."),
        (GRID, with_a_hole, 5, " (1 seed left out because a group has no number)"),
        ({"model.depth": [2, 30]}, fallen_back, 5, "the other escaped after epoch 3"),
    ],
)
def test_findings_read_so(axes: Any, outcome: Any, seeds: int, sentence: str) -> None:
    assert sentence in findings(measured(mnist(axes=axes), outcome, seeds=seeds))


def test_a_study_of_many_groups_is_answered_by_its_best_and_worst() -> None:
    found = measured(
        mnist(axes={"model.depth": list(range(1, 10))}), lambda s, seed: ({"test_accuracy": s["model.depth"] / 10}, {})
    )
    expected = "Test accuracy of 9 groups, best and worst: 9 layers 0.9000; 1 layer 0.1000 (median"
    assert str(answer(found)).startswith(expected)


def told(n: int, difference: Any, ratio: Any = None, zeros: int = 0, **options: Any) -> Comparison:
    """A comparison of b with a, of which only these numbers are known."""
    ends = None if ratio is None else Estimate(*ratio, n)
    return Comparison("m", "a", "b", Estimate(*difference, n), ends, zeros, **options)


NO_DIFFERENCE = (0.0, None, None)


@pytest.mark.parametrize(
    ("comparison", "sentence"),
    [
        (
            told(9, NO_DIFFERENCE, (0.2, 0.1, 0.4)),
            "B is 5 times lower than a (95 %: 2.5 to 10), paired over 9 seeds.",
        ),
        (
            told(9, NO_DIFFERENCE, (3.0, 2.0, 4.5)),
            "B is 3 times higher than a (95 %: 2 to 4.5), paired over 9 seeds.",
        ),
        (told(9, NO_DIFFERENCE, (1.1, 0.9, 1.3)), "not settled, because the interval contains 1"),
        (told(9, NO_DIFFERENCE, (0.9, 0.7, 1.2)), "not settled, because the interval contains 1"),
        (told(3, (-0.5, -0.7, -0.3)), "B minus a: −0.5 (95 %: −0.7 to −0.3), paired over 3 seeds."),
        (told(2, (0.1, -9e9, 9e9), (2.0, 0.0, 9e9)), "fewer than 5 pairs settle nothing"),
        (told(6, (0.1, -1.0, 1.2)), "the interval contains 0"),
        (told(5, (1.0, 1.0, 1.0), (2.0, 1.5, 3.0), 2), "paired over 5 seeds; 2 pairs"),
        (
            told(5, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), identical=True),
            "B and a do not differ at all, paired over 5",
        ),
        (told(4, (0.5, 0.1, 0.9), unknown=1), "paired over 4 seeds, 1 of them without a number"),
    ],
)
def test_a_comparison_reads_as_a_sentence(comparison: Comparison, sentence: str) -> None:
    assert sentence in tell_comparison(comparison)


def test_large_ratios_read_well() -> None:
    assert times(2512.3) == "2,510×"

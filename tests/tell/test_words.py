"""One way to write a number, a count, a list, and how a size changes over the layers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gradlab.facts import Gain
from gradlab.words import bracket, counted, counted_were, how_often, join, listed, per_layer, percent, rounded, say_gain


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (math.nan, "NaN"), (math.inf, "∞"), (-math.inf, "−∞"), (0.0, "0"), (3, "3"), (12345, "12,345"),
        (0.33333, "0.3333"), (1.234e-9, "1.234 × 10⁻⁹"), (16.0, "16"), (12345.678, "12,350"), (5e12, "5 × 10¹²"),
    ],
)  # fmt: skip
def test_numbers_read_well(value: Any, text: str) -> None:
    assert rounded(value, 4) == text


WRITTEN = [
    (bracket(0.06123, 0.0654), "[0.0612, 0.0654]"),
    (percent(0.346), "35 %"),
    (counted(1, "seed"), "1 seed"),
    (counted(5006, "seed"), "5,006 seeds"),
    (counted(2, "sentence of theirs"), "2 sentences of theirs"),
    (counted(0, "entry", "entries"), "0 entries"),
    (counted_were(1, "trial"), "1 trial was"),
    (counted_were(3, "trial"), "3 trials were"),
    (how_often(1), "once"),
    (how_often(2), "2 times"),
    (join([]), ""),
    (join(["a"]), "a"),
    (join(["a", "b", "c"], "or"), "a, b or c"),
    (listed(["a", "b"]), "a, b"),
    (listed("abcdefg"), "a, b, c, d and 3 more"),
    (listed("abcd", 2, apart="; "), "a; b; and 2 more"),
    (listed([], none="none"), "none"),
    (per_layer(1 / 4.567), "loses a factor of 4.57 per layer"),
    (per_layer(1.1), "gains a factor of 1.1 per layer"),
    (say_gain(Gain(1 / 4.6, 2.4e-13, 19)), "loses a factor of 4.6 per layer (4.2 × 10¹² over 19 layers)"),
    (say_gain(Gain(1.06, 3.0, 19)), "gains a factor of 1.06 per layer (3 over 19 layers)"),
    (say_gain(Gain(1 / 1.02, 0.5, 29)), "loses only a factor of 2 over 29 layers"),
    (say_gain(Gain(1.001, 1.02, 19)), "keeps its size"),
    (say_gain(Gain(0.1, 0.0, 4)), "falls to exactly 0 within 4 layers"),
    (say_gain(Gain(0.0, 0.5, 2)), "falls to exactly 0 within 2 layers"),
    (say_gain(Gain(10.0, math.inf, 3)), "overflows within 3 layers"),
    (say_gain(Gain(math.inf, 1.0, 2)), "overflows within 2 layers"),
]


@pytest.mark.parametrize(("said", "text"), WRITTEN)
def test_counts_lists_and_changes_read_well(said: str, text: str) -> None:
    assert said == text


@pytest.mark.parametrize(
    ("in_all", "even", "vanishes", "explodes"),
    [(1.1, True, False, False), (0.02, False, False, False), (0.009, False, True, False), (101, False, False, True)],
)
def test_what_vanishes_explodes_or_stays_is_defined_once(
    in_all: float, even: bool, vanishes: bool, explodes: bool
) -> None:
    gain = Gain(in_all**0.1, in_all, 10)
    assert (gain.even, gain.vanishes, gain.explodes) == (even, vanishes, explodes)

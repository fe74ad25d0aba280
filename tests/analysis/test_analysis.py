from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import gradlab
from gradlab.analysis.answer import against, answer
from gradlab.analysis.comparison import Comparison, compare
from gradlab.analysis.estimate import Estimate, summarize
from gradlab.analysis.formatting import interval, number, times
from gradlab.analysis.published import beside
from gradlab.spec.place import At


def test_the_interval_is_students_t() -> None:
    values = np.random.default_rng(0).standard_normal(7)
    s = summarize(values.tolist())
    low, high = stats.t.interval(0.95, 6, values.mean(), stats.sem(values))
    assert (s.mean, s.low, s.high) == pytest.approx((values.mean(), low, high))
    assert (s.n, s.median, s.smallest, s.largest) == (7, np.median(values), values.min(), values.max())


def test_what_is_not_a_plain_number_is_counted_beside() -> None:
    s = summarize([1.0, math.nan, math.inf, None, 0.0, 3])
    assert (s.n, s.nan, s.inf, s.minus_inf, s.missing, s.zeros) == (3, 1, 1, 0, 1, 1)
    assert s.mean == pytest.approx(4 / 3)
    assert summarize([None]).mean is None
    single = summarize([2.0])
    assert (single.mean, single.low, single.high, single.n) == (2.0, None, None, 1)


@pytest.fixture
def result(tree: dict[str, Any]) -> gradlab.Result:
    tree["seeds"] = 5
    tree["published"] = [
        {"metric": "grad_l2", "arms": "plain", "at": {"layer": [1, 3], "step": "start"}, "value": [1, 2]}
    ]
    return gradlab.run(tree)


def test_comparisons_are_paired_over_seeds(result: gradlab.Result) -> None:
    a, b = (np.array(list(result.measured.values("final_loss", name).values())) for name in ("plain", "residual"))
    c = compare(result.measured, "final_loss", "plain", "residual")
    low, high = stats.t.interval(0.95, 4, (b - a).mean(), stats.sem(b - a))
    assert (c.difference.value, c.difference.low, c.difference.high) == pytest.approx(((b - a).mean(), low, high))
    logs = np.log(b / a)
    low, high = stats.t.interval(0.95, 4, logs.mean(), stats.sem(logs))
    assert (c.ratio.value, c.ratio.low, c.ratio.high) == pytest.approx(tuple(np.exp((logs.mean(), low, high))))
    assert c.n == 5


def test_layer_values_are_found_by_step_and_layer(result: gradlab.Result) -> None:
    frame = result.layers()
    first = frame.query("group == 'plain' and seed == 2 and step == 20 and layer == 3 and measure == 'grad_l2'")
    for at in (At(layer=3, step="end"), At(layer="last"), At(layer=3, step=20)):
        assert result.measured.values("grad_l2", "plain", at)[2] == first.value.item()
    assert result.measured.values("grad_l2", "plain", At(layer=9))[2] is None


def test_published_numbers_stand_beside_measured_ones(result: gradlab.Result) -> None:
    rows = beside(result.measured)
    assert [(row.at.layer, row.published, row.measured.n) for row in rows] == [(1, 1.0, 5), (3, 2.0, 5)]
    assert rows[0].inside_seeds == (rows[0].measured.smallest <= 1.0 <= rows[0].measured.largest)


def test_the_answer_is_written_from_the_numbers(result: gradlab.Result) -> None:
    text = answer(result.measured)
    assert text.startswith("final_loss: plain ")
    assert "over 5 seeds" in text
    assert interval(result.measured.summary("final_loss", "residual")) in text


def told(n: int, difference: Any, ratio: Any = None, zeros: int = 0) -> Comparison:
    """A comparison of b with a, of which only these numbers are known."""
    return Comparison("m", "a", "b", Estimate(*difference, n), None if ratio is None else Estimate(*ratio, n), zeros)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "words"),
    [
        (0.2, 0.1, 0.4, "b is 5× lower than a (95 % interval 2.5× to 10×), paired over 9 seeds."),
        (3.0, 2.0, 4.5, "b is 3× higher than a (95 % interval 2× to 4.5×), paired over 9 seeds."),
        (1.1, 0.9, 1.3, "not settled: the interval contains 1"),
        (0.9, 0.7, 1.2, "not settled: the interval contains 1"),
    ],
)
def test_a_comparison_reads_as_a_sentence(ratio: float, low: float, high: float, words: str) -> None:
    assert words in against(told(9, (0.0, None, None), (ratio, low, high)))


def test_a_comparison_without_a_ratio_gives_the_difference() -> None:
    c = told(3, (-0.5, -0.7, -0.3))
    assert against(c) == "b minus a: -0.5, 95 % interval [-0.7, -0.3], paired over 3 seeds."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (math.nan, "NaN"), (math.inf, "∞"), (-math.inf, "−∞"), (0.0, "0"), (3, "3"), (12345, "12,345"),
        (0.33333, "0.3333"), (1.234e-9, "1.234e-09"), (16.0, "16"), (12345.678, "12,350"), (5e12, "5.000e+12"),
    ],
)  # fmt: skip
def test_numbers_read_well(value: Any, text: str) -> None:
    assert number(value) == text


def test_large_ratios_read_well() -> None:
    assert times(2512.3) == "2,510×"


def test_ratios_over_hundreds_of_decades_do_not_overflow(
    result: gradlab.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"plain": {0: 1e-300, 1: 1e-10}, "residual": {0: 1.0, 1: 1.0}}
    monkeypatch.setattr(type(result.measured), "values", lambda self, metric, group, at=None: values[group])
    c = compare(result.measured, "m_loss", "plain", "residual")
    assert c.ratio.value > 1e100
    assert "higher than plain" in against(c)
    assert "lower than residual" in against(compare(result.measured, "m_loss", "residual", "plain"))


def test_a_number_that_only_some_seeds_have_says_how_many() -> None:
    assert interval(summarize([20, 30, None, None])).endswith("in 2 of 4 seeds")


def test_comparisons_that_settle_nothing_say_so() -> None:
    assert "not settled: one pair" in against(told(1, (0.1, None, None), (2.0, None, None)))
    assert "contains 0" in against(told(3, (0.1, -1.0, 1.2)))
    assert "paired over 3 seeds; 2 pairs" in against(told(5, (1.0, 1.0, 1.0), (2.0, 1.5, 3.0), 2))
    assert "do not differ" in against(told(5, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))

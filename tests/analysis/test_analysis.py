from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.analysis.claims.numbers import compare_numbers
from gradlab.analysis.comparison import compare, compare_samples
from gradlab.analysis.estimate import Estimate, interval
from gradlab.analysis.measured import summarize
from gradlab.analysis.sample import sample_of
from gradlab.spec.claims import At
from gradlab.spec.metric import infer
from gradlab.tell.answers import answer, tell_comparison
from gradlab.words import written


def summary(values: list[Any], metric: str = "final_loss") -> Estimate:
    """Of these values by seed; None is a trial that ended without the number."""
    statuses = dict.fromkeys(range(len(values)), "done")
    sample = sample_of(infer(metric), range(len(values)), dict(enumerate(values)), statuses)
    return summarize(infer(metric), sample)


def test_the_interval_holds_the_median_by_order_statistics() -> None:
    values = np.random.default_rng(0).random(30).tolist()
    s = summary(values)
    ordered = sorted(values)
    assert (s.value, s.n, s.planned) == (np.median(values), 30, 30)
    assert (s.smallest, s.largest, s.mean) == (ordered[0], ordered[-1], pytest.approx(np.mean(values)))
    assert (s.low, s.high) == (ordered[6], ordered[-7])  # 24 of 30 above is what refutes a median


def test_too_few_seeds_have_the_quantitys_own_bounds() -> None:
    s = summary([0.9, 0.91, 0.92], "test_accuracy")
    assert (s.low, s.high, s.bounded) == (0.0, 100.0, True)  # user code may give percent
    assert interval(s) == "0.9100 (0.900 … 0.920)"
    assert (summary([1.0, 2.0, 3.0]).low, summary([1.0, 2.0, 3.0]).high) == (0.0, math.inf)


def test_a_run_that_is_not_finished_has_no_interval_yet() -> None:
    metric = infer("final_loss")
    sample = sample_of(metric, range(10), {0: 1.0, 1: 2.0, 2: 3.0}, dict.fromkeys(range(3), "done"))
    s = summarize(metric, sample)
    assert (s.value, s.n, s.planned, s.missing, s.bounded) == (2.0, 3, 10, 7, True)
    assert interval(s) == "2 (1 … 3), in 3 of 10 seeds"


def test_what_is_not_a_plain_number_is_counted_beside_and_in_the_median() -> None:
    s = summary([1.0, math.nan, math.inf, None, 0.0, 3])
    assert (s.n, s.nan, s.inf, s.minus_inf, s.missing, s.zeros, s.planned) == (3, 1, 1, 0, 1, 1, 6)
    assert s.mean == pytest.approx(4 / 3)
    assert summary([math.nan] * 4 + [1.0] * 3).value == math.inf  # a loss that is NaN is worse than any
    assert summary([None]).mean is None
    assert summary([None]).value is None
    single = summary([2.0])
    assert (single.mean, single.value, single.n, single.bounded) == (2.0, 2.0, 1, True)


def test_a_finite_test_set_has_a_sampling_error() -> None:
    metric = infer("test_accuracy")
    sample = sample_of(metric, range(3), {0: 0.9, 1: 0.9, 2: 0.9}, dict.fromkeys(range(3), "done"))
    assert summarize(metric, sample, rows=10_000).sampling_error == pytest.approx(1.96 * 0.003)
    assert summarize(metric, sample).sampling_error is None


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
    assert c is not None
    assert c.ratio is not None
    assert c.difference.value == pytest.approx(np.median(b - a))
    assert c.ratio.value == pytest.approx(np.median(b / a))
    assert c.ratio.low < c.ratio.value < c.ratio.high
    assert (c.n, c.unknown, c.identical) == (5, 0, False)


def test_layer_values_are_found_by_step_and_layer(result: gradlab.Result) -> None:
    frame = result.layers()
    first = frame.query("group == 'plain' and seed == 2 and step == 20 and layer == 3 and measure == 'grad_l2'")
    for at in (At(layer=3, step="end"), At(layer="last"), At(layer=3, step=20)):
        assert result.measured.values("grad_l2", "plain", at)[2] == first.value.item()
    assert result.measured.values("grad_l2", "plain", At(layer=9))[2] is None


def test_published_numbers_stand_beside_measured_ones(result: gradlab.Result) -> None:
    rows = compare_numbers(result.measured)
    assert [(row.at.layer, row.published.text, row.measured.n) for row in rows] == [(1, "1", 5), (3, "2", 5)]
    for row in rows:
        assert row.prediction is not None
        inside = row.prediction.low <= row.published.high and row.published.low <= row.prediction.high
        assert row.outcome == ("says little" if inside else "not consistent")


def test_the_answer_is_written_from_the_numbers(result: gradlab.Result) -> None:
    text = str(answer(result.measured))
    plain, residual = (result.measured.summary("final_loss", arm).value for arm in ("plain", "residual"))
    better, worse = sorted([(residual, "residual"), (plain, "plain")])
    assert text.startswith(f"{better[1].capitalize()} ends at a loss of {written(better[0])}, ")
    assert f" times lower than {worse[1]} at {written(worse[0])} (" in text
    assert "5 seeds)." in text


def test_ratios_over_hundreds_of_decades_do_not_overflow(
    result: gradlab.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"plain": dict.fromkeys(range(5), 1e-300), "residual": dict.fromkeys(range(5), 1.0)}
    monkeypatch.setattr(type(result.measured), "values", lambda self, metric, group, at=None: values[group])
    c = compare(result.measured, "m_loss", "plain", "residual")
    assert c.ratio.value > 1e100
    assert " higher " in tell_comparison(c)
    assert " lower " in tell_comparison(compare(result.measured, "m_loss", "residual", "plain"))


def test_a_number_that_only_some_seeds_have_says_how_many() -> None:
    assert interval(summary([20, 30, None, None], "other")).endswith("in 2 of 4 seeds")


def test_a_failed_seed_is_named_in_the_comparison() -> None:
    left = sample_of(infer("loss"), range(4), {0: 1.0, 1: 1.1, 2: 1.2}, dict.fromkeys(range(3), "done"))
    right = sample_of(infer("loss"), range(4), dict.fromkeys(range(4), 9.0), dict.fromkeys(range(4), "done"))
    c = compare_samples(infer("loss"), ("a", "b"), left, right)
    assert c is not None
    assert (c.n, c.unknown, c.settled) == (4, 1, False)

"""The deciding rules keep what they promise: coverage, and few false verdicts, in simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from gradlab.analysis.claims import holm_levels
from gradlab.analysis.rules import Median, Proportion, Rule, Student, one_arm, two_arms
from gradlab.analysis.rules.resampling import bootstrap_interval, permutation_p
from gradlab.spec.metric import Metrics

METRIC = Metrics()
SEEDS = (3, 5, 10)
RUNS = 3000
Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def covers(rule: Rule, truth: float) -> bool:
    e = rule.estimate
    return e.low is None or e.high is None or e.low <= truth <= e.high


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize(
    ("metric", "draw", "truth"),
    [
        ("test_accuracy", lambda rng, n: rng.normal(0.9, 0.02, n), 0.9),
        ("final_loss", lambda rng, n: rng.lognormal(-2.0, 1.5, n), math.exp(-2.0)),
        ("grad_l2", lambda rng, n: rng.lognormal(-30.0, 8.0, n), math.exp(-30.0)),
    ],
)
def test_intervals_cover_on_the_scale_that_the_rule_prescribes(metric: str, draw: Draw, truth: float, n: int) -> None:
    rng = np.random.default_rng(n)
    hits = [covers(_rule(one_arm(METRIC[metric], draw(rng, n).tolist())), truth) for _ in range(RUNS)]
    assert np.mean(hits) >= 0.94


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.7])
def test_mixtures_are_judged_by_shares_and_medians_that_cover(n: int, share: float) -> None:
    rng = np.random.default_rng(n)
    shares, medians = [], []
    for _ in range(RUNS):
        collapsed = rng.random(n) < share
        shares.append(covers(_rule(one_arm(METRIC["collapsed"], collapsed.astype(float).tolist())), share))
        if 0 < collapsed.sum() < n and share != 0.5:
            values = np.where(collapsed, 0.1, rng.normal(0.9, 0.02, n))
            rule = one_arm(METRIC["test_accuracy"], values.tolist(), mixed=True)
            assert isinstance(rule, Median)
            truth = 0.1 if share > 0.5 else 0.9 + 0.02 * stats.norm.ppf((0.5 - share) / (1 - share))
            medians.append(covers(rule, truth))
    assert np.mean(shares) >= 0.94
    assert not medians or np.mean(medians) >= 0.94


@pytest.mark.parametrize("n", SEEDS)
def test_few_settled_verdicts_are_wrong_where_nothing_differs(n: int) -> None:
    rng = np.random.default_rng(n)
    wrong = {"difference": 0, "ratio": 0, "share": 0, "sign": 0}
    for _ in range(RUNS):
        a, b = rng.normal(0.9, 0.02, (2, n))
        wrong["difference"] += _settled(two_arms(METRIC["test_accuracy"], list(zip(a, b, strict=True))), 0)
        a, b = rng.lognormal(0, 2, (2, n))
        wrong["ratio"] += _settled(two_arms(METRIC["final_loss"], list(zip(a, b, strict=True))), 1)
        wrong["share"] += _settled(one_arm(METRIC["collapsed"], (rng.random(n) < 0.5).astype(float).tolist()), 0.5)
        wrong["sign"] += _settled(two_arms(METRIC["test_accuracy"], list(zip(a, b, strict=True)), mixed=True), 0)
    assert {kind: count / RUNS <= 0.056 for kind, count in wrong.items()} == dict.fromkeys(wrong, True)


def _settled(rule: Rule | None, bound: float) -> bool:
    rule = _rule(rule)
    return 2 * min(rule.p_above(bound), rule.p_below(bound)) <= 0.05


def _rule(rule: Rule | None) -> Rule:
    assert rule is not None
    return rule


def test_the_percentile_bootstrap_covers_too_seldom_to_decide() -> None:
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(1000):
        low, high = bootstrap_interval(rng.standard_normal(5)) or (0, 0)
        hits.append(low <= 0 <= high)
    assert 0.78 < np.mean(hits) < 0.9


def test_student_is_scipys_t_test() -> None:
    values = np.random.default_rng(1).lognormal(0, 1, 8)
    rule = Student(tuple(values), logs=True)
    assert rule.p_above(0.7) == pytest.approx(
        stats.ttest_1samp(np.log(values), np.log(0.7), alternative="greater").pvalue
    )
    assert rule.p_below(0.7) == pytest.approx(stats.ttest_1samp(np.log(values), np.log(0.7), alternative="less").pvalue)
    low, high = stats.t.interval(0.95, 7, np.log(values).mean(), stats.sem(np.log(values)))
    assert (rule.estimate.low, rule.estimate.high) == pytest.approx((np.exp(low), np.exp(high)))


def test_shares_are_scipys_binomial_test() -> None:
    rule = Proportion(9, 10)
    exact = stats.binomtest(9, 10, 0.5, alternative="greater")
    assert rule.p_above(0.5) == pytest.approx(exact.pvalue)
    interval = stats.binomtest(9, 10).proportion_ci(0.95, "exact")
    assert (rule.estimate.low, rule.estimate.high) == pytest.approx((interval.low, interval.high))
    assert rule.p_above(-0.1) == 0
    assert rule.p_below(1.1) == 0


def test_exact_zeros_lie_below_every_bound_and_are_judged_by_sign() -> None:
    rule = one_arm(METRIC["grad_l2"], [0.0, 0.0, 1e-17, 3e-20, 0.0, 1e-18, 0.0, 2e-19])
    assert isinstance(rule, Median)
    assert 2 * rule.p_below(1e-13) < 0.05
    pairs = [(0.0, 1e-2), (1e-17, 2e-2), (0.0, 1e-2), (1e-18, 3e-2), (1e-19, 1e-2), (1e-17, 1e-2), (1e-17, 1e-2)]
    order = two_arms(METRIC["grad_l2"], pairs)
    assert isinstance(order, Median)
    assert 2 * order.p_below(1) < 0.05
    size = two_arms(METRIC["grad_l2"], pairs, size=True)
    assert isinstance(size, Student)
    assert size.estimate.n == 5


def test_diverged_networks_are_worse_than_any() -> None:
    loss = _rule(one_arm(METRIC["final_loss"], [math.nan] * 6))
    assert loss.p_above(1e300) < 0.025
    accuracy = _rule(one_arm(METRIC["test_accuracy"], [math.nan] * 6))
    assert accuracy.p_below(0.1) < 0.025
    assert _rule(two_arms(METRIC["final_loss"], [(math.inf, 1.0)] * 6)).p_above(1) < 0.025


def test_six_seeds_are_the_fewest_with_an_interval_of_the_median() -> None:
    assert Median((1.0, 2.0, 3.0, 4.0, 5.0)).estimate.low is None
    e = Median((1.0, 2.0, 3.0, 4.0, 5.0, 6.0)).estimate
    assert (e.low, e.value, e.high) == (1.0, 3.5, 6.0)


@pytest.mark.parametrize("effect", [0.3, 0.7, 1.5])
def test_the_number_of_seeds_that_is_asked_for_settles_four_cases_in_five(effect: float) -> None:
    rng = np.random.default_rng(2)
    base = rng.standard_normal(6)
    values = (base - base.mean()) / base.std(ddof=1) + effect
    n = Student(tuple(values)).seeds_for(0.0, 0.05)
    assert n is not None
    draws = rng.normal(effect, 1, (2000, n))
    t = draws.mean(1) / draws.std(1, ddof=1) * math.sqrt(n)
    power = np.mean(t > stats.t.ppf(0.975, n - 1))
    assert 0.75 < power < 0.93


def test_nothing_to_find_needs_more_seeds_than_anybody_has() -> None:
    assert Student((1.0, -1.0)).seeds_for(0.0, 0.05) is None
    assert Student((1.0,)).seeds_for(0.0, 0.05) is None
    more = Proportion(6, 10).seeds_for(0.5, 0.05)
    assert more is not None
    assert more > 50
    assert Median((1.0,) * 4).seeds_for(0.0, 0.05) == 6


def test_identical_values_settle_everything_and_one_value_nothing() -> None:
    same = Student((2.0, 2.0, 2.0))
    assert (same.p_above(1.9), same.p_below(1.9)) == (0.0, 1.0)
    alone = Student((2.0,))
    assert alone.p_above(0) == alone.p_below(0) == 1.0
    assert alone.estimate.low is None


def test_permutation_of_few_pairs_is_exact() -> None:
    assert permutation_p(np.array([1.0, 2.0, 3.0])) == 2 / 8
    assert permutation_p(np.array([1.0])) is None
    many = np.random.default_rng(0).normal(0.5, 1, 40)
    assert permutation_p(many) == pytest.approx(stats.ttest_1samp(many, 0).pvalue, abs=0.02)


def test_holm_steps_down() -> None:
    assert holm_levels([0.001, 0.02, 0.04]) == [0.05 / 3, 0.05 / 2, 0.05]
    assert holm_levels([0.04, 0.03, 0.02]) == [0.05 / 3] * 3  # the smallest fails, and so do the others
    assert holm_levels([]) == []

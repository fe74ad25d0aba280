"""The deciding rules: what they compute, and what they refuse to say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from gradlab.analysis.claims import holm_levels
from gradlab.analysis.rules import Median, Paired, Proportion, Rule, one_arm, two_arms
from gradlab.analysis.rules.component import Component, pseudo_values
from gradlab.analysis.rules.evidence import SPREADS, mean_evidence, p_value, share_evidence
from gradlab.analysis.rules.resampling import bootstrap_interval, permutation_p
from gradlab.analysis.rules.schedule import ANYTIME, LOOKS
from gradlab.analysis.sample import UNKNOWN, Sample
from gradlab.spec.metric import Metric, infer
from gradlab.trials.recorder import METRICS


def sample(*values: float) -> Sample:
    return Sample({seed: (value, value) for seed, value in enumerate(values)})


def known(rule: Rule | None) -> Rule:
    assert rule is not None
    return rule


@pytest.mark.parametrize(("count", "n", "share"), [(6, 6, 0.5), (9, 10, 0.5), (3, 10, 0.2), (0, 4, 0.3)])
def test_evidence_of_a_share_is_the_mixture_that_is_stated(count: int, n: int, share: float) -> None:
    def likelihood(q: float) -> float:
        return q**count * (1 - q) ** (n - count) / (share**count * (1 - share) ** (n - count))

    mixed, _ = integrate.quad(lambda q: likelihood(q) * (1 - q) ** -0.5 / (2 * math.sqrt(1 - share)), share, 1)
    assert math.exp(share_evidence(count, n, share)) == pytest.approx(0.5 * likelihood(1.0) + 0.5 * mixed, rel=1e-6)


def test_evidence_of_a_share_is_a_fair_bet() -> None:
    """Under the null the expected capital does not grow, whatever the number of seeds."""
    for n in (1, 2, 5, 20):
        expected = sum(stats.binom.pmf(k, n, 0.3) * math.exp(share_evidence(k, n, 0.3)) for k in range(n + 1))
        assert expected == pytest.approx(1.0)
        below = sum(stats.binom.pmf(k, n, 0.2) * math.exp(share_evidence(k, n, 0.3)) for k in range(n + 1))
        assert below <= 1


def test_evidence_of_a_mean_is_a_fair_bet_and_free_of_scale() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 5):
        z = np.abs(stats.t.rvs(n - 1, size=40_000, random_state=rng)) ** 1.0
        capped = [min(math.exp(mean_evidence(n, s * t / math.sqrt(n * (n - 1)), 1.0)), 20) for t in z for s in (1, -1)]
        assert np.mean(capped) <= 1.0
    assert mean_evidence(5, 3.0, 2.0) == pytest.approx(mean_evidence(5, 3e-9, 2e-18))
    assert len(SPREADS) == 13


def test_one_arm_is_settled_by_six_seeds_on_one_side_and_not_by_five() -> None:
    five, six = (known(one_arm(infer("final_loss"), sample(*range(1, n + 1)))) for n in (5, 6))
    assert 2 * five.p_above(0.5) > 0.05
    assert 2 * six.p_above(0.5) <= 0.05
    assert (five.estimate.low, five.estimate.high, five.estimate.bounded) == (0.0, math.inf, True)
    assert (six.estimate.low, six.estimate.value, six.estimate.high) == (1.0, 3.5, 6.0)


def test_the_interval_and_the_verdict_say_the_same() -> None:
    rng = np.random.default_rng(1)
    for n in (3, 5, 8, 12, 25, 60):
        values = rng.normal(1.0, 1, n)
        rules: list[Rule] = [
            known(two_arms(infer("score"), sample(*values), sample(*np.zeros(n)), resolution=1e-9)),
            known(one_arm(infer("score"), sample(*values))),
            Proportion(int((values > 1).sum()), n),
            Component(tuple(values)),
        ]
        for rule in rules:
            e = rule.estimate
            for bound in (*np.linspace(-2, 4, 41), 0.37, 0.81):
                outside = e.excludes(bound)
                assert (2 * min(rule.p_above(bound), rule.p_below(bound)) <= 0.05) == outside or abs(bound) in (
                    abs(e.low or 0), abs(e.high or 0),
                ), (rule, bound, e)  # fmt: skip


def test_the_rule_is_fixed_by_metric_and_design_whatever_is_seen() -> None:
    """Zeros, collapse or NaN once switched from mean to median."""
    for values in ((1.0, 2.0, 3.0), (0.0, 2.0, 3.0), (math.inf, 2.0, 3.0), (-1.0, 2.0, 3.0)):
        assert isinstance(one_arm(infer("final_loss"), sample(*values)), Median)
        assert isinstance(two_arms(infer("final_loss"), sample(*values), sample(1.0, 1.0, 1.0)), Paired)
    assert isinstance(one_arm(infer("collapsed"), sample(0.0, 1.0, 1.0)), Proportion)
    assert one_arm(infer("final_loss"), Sample({})) is None


def test_losses_are_compared_by_ratios_and_accuracies_by_differences() -> None:
    ratio = two_arms(infer("final_loss"), sample(2.0, 4.0, 6.0), sample(1.0, 2.0, 3.0))
    assert ratio is not None
    assert (ratio.logs, ratio.nothing, ratio.estimate.value) == (True, 1.0, pytest.approx(2.0))
    difference = two_arms(infer("score"), sample(2.0, 4.0, 6.0), sample(1.0, 2.0, 3.0))
    assert difference is not None
    assert (difference.logs, difference.nothing, difference.estimate.value) == (False, 0.0, 2.0)
    negative = two_arms(infer("final_loss"), sample(-2.0, 4.0), sample(1.0, 2.0))
    assert negative is not None
    assert not negative.logs


def test_planned_looks_are_students_t_on_the_first_seeds() -> None:
    values = np.random.default_rng(3).normal(1.5, 1, 5)
    rule = known(two_arms(infer("score"), sample(*values), sample(*np.zeros(5))))
    exact = stats.ttest_1samp(values, 0.2, alternative="greater").pvalue
    assert rule.p_above(0.2) == pytest.approx(exact / LOOKS[5], rel=1e-3)
    assert sum(LOOKS.values()) + ANYTIME == pytest.approx(1)


def test_first_seeds_do_not_outlive_what_later_ones_say() -> None:
    values = [1.0, 1.01, 0.99] + [-1.0, -1.01, -0.99, -1.02] * 4
    rule = known(two_arms(infer("score"), sample(*values), sample(*np.zeros(len(values)))))
    assert rule.p_above(0) > 0.05


def test_pairs_without_a_number_count_against_both_sides() -> None:
    clear = {seed: (9.0 + seed / 10, 9.0 + seed / 10) for seed in range(5)}
    lost = Sample({**clear, **dict.fromkeys(range(5, 10), UNKNOWN)})
    rule = known(two_arms(infer("score"), lost, sample(*np.zeros(10))))
    assert rule.estimate.n == 10
    assert min(rule.p_above(0), rule.p_below(0)) > 0.05
    assert known(two_arms(infer("score"), Sample(clear), sample(*np.zeros(5)))).p_above(0) < 0.025


def test_diverged_networks_are_worse_than_any() -> None:
    loss = known(one_arm(infer("final_loss"), sample(*[math.inf] * 6)))
    assert 2 * loss.p_above(1e300) <= 0.05
    pairs = known(two_arms(infer("final_loss"), sample(*[math.inf] * 9), sample(*[1.0] * 9)))
    assert 2 * pairs.p_above(1) <= 0.05
    assert pairs.estimate.value == math.inf


def test_pairs_that_do_not_differ_are_no_tosses() -> None:
    """Of 20 networks 10 end alike in both arms; of the others all are solved in one only."""
    first, second = sample(*[1.0] * 20), sample(*[0.0] * 10, *[1.0] * 10)
    rule = known(two_arms(Metric.of("solved", "flag"), first, second, resolution=1.0))
    assert 2 * rule.p_above(0) <= 0.05
    assert (rule.estimate.value, rule.estimate.what) == (0.5, "mean")


def test_exact_zeros_lie_below_every_bound() -> None:
    rule = known(one_arm(infer("grad_l2"), sample(0.0, 0.0, 1e-17, 3e-20, 0.0, 1e-18, 0.0, 2e-19)))
    assert 2 * rule.p_below(1e-13) < 0.05
    order = known(two_arms(infer("grad_l2"), sample(*[0.0] * 10), sample(*[1e-2] * 10)))
    assert 2 * order.p_below(1) < 0.05


def test_no_spread_is_no_certainty() -> None:
    same = known(two_arms(infer("accuracy"), sample(*[0.97] * 4), sample(*[0.96] * 4), resolution=0.01))
    assert 2 * same.p_above(0) > 0.05
    sure = known(two_arms(infer("score"), sample(*[2.0] * 5), sample(*[1.0] * 5), resolution=1e-7))
    assert 0 < sure.p_above(0) < 1e-10
    alone = known(two_arms(infer("score"), sample(2.0), sample(1.0)))
    assert alone.p_above(0) == alone.p_below(0) == 1.0
    two = known(two_arms(infer("score"), sample(2.0, 2.0), sample(1.0, 1.0)))
    assert two.p_above(0) == 1.0
    assert two.estimate.bounded


def test_intervals_of_bounded_quantities_stay_inside() -> None:
    rule = known(one_arm(infer("test_accuracy"), sample(0.99, 1.0, 1.0)))
    assert rule.estimate.low == 0.0
    share = Proportion(0, 4).estimate
    assert share.low == 0.0
    assert 0 < (share.high or 0) < 1
    difference = known(two_arms(METRICS["test_accuracy"], sample(0.9, 0.1, 0.5), sample(0.1, 0.9, 0.5)))
    assert (difference.estimate.low, difference.estimate.high) == (-1.0, 1.0)


def test_the_advice_is_a_range() -> None:
    rule = known(two_arms(infer("score"), sample(1.0, 0.2, 1.5, -0.3, 0.9), sample(*np.zeros(5))))
    needed = rule.seeds_for(0.0, 0.05)
    assert needed is not None
    assert needed.fewest > 5
    assert needed.most is None or needed.most > needed.fewest
    nothing = known(two_arms(infer("score"), sample(1.0, -1.0, 1.0, -1.0), sample(*np.zeros(4)))).seeds_for(0.0, 0.05)
    assert nothing is not None
    assert nothing.most is None
    shares = Proportion(6, 10).seeds_for(0.5, 0.05)
    assert shares is not None
    assert (shares.fewest > 10, shares.most) == (True, None)


def test_variance_components_are_unbiased_and_may_be_negative() -> None:
    rng = np.random.default_rng(0)
    truth = np.array([0.0, 1.0, 2.0])
    found = [pseudo_values(truth + rng.normal(0, 2, (4, 3))).mean() for _ in range(4000)]
    assert np.mean(found) == pytest.approx(np.var(truth), abs=0.1)
    nothing = [pseudo_values(rng.normal(0, 2, (4, 12))).mean() for _ in range(4000)]
    assert np.mean(nothing) == pytest.approx(0, abs=0.02)
    assert min(nothing) < 0


def test_the_percentile_bootstrap_covers_too_seldom_to_decide() -> None:
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(1000):
        low, high = bootstrap_interval(rng.standard_normal(5)) or (0, 0)
        hits.append(low <= 0 <= high)
    assert 0.78 < np.mean(hits) < 0.9


def test_permutation_of_few_pairs_is_exact() -> None:
    assert permutation_p(np.array([1.0, 2.0, 3.0])) == 2 / 8
    assert permutation_p(np.array([1.0])) is None
    many = np.random.default_rng(0).normal(0.5, 1, 40)
    assert permutation_p(many) == pytest.approx(stats.ttest_1samp(many, 0).pvalue, abs=0.02)


def test_holm_steps_down() -> None:
    assert holm_levels([0.001, 0.02, 0.04]) == [0.05 / 3, 0.05 / 2, 0.05]
    assert holm_levels([0.04, 0.03, 0.02]) == [0.05 / 3] * 3  # the smallest fails, and so do the others
    assert holm_levels([]) == []


def test_a_p_value_is_at_most_one() -> None:
    assert p_value(-3.0) == 1.0
    assert p_value(math.log(40)) == pytest.approx(1 / 40)

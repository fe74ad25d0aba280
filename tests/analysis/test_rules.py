"""The deciding rules: what they compute, and what they refuse to say."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import integrate, stats

from gradlab.analysis.claims import holm_levels
from gradlab.analysis.claims.power import claim_levels
from gradlab.analysis.rules import Median, Paired, Proportion, Rule, one_arm, pooled_arms, two_arms
from gradlab.analysis.rules.base import ANYTIME, LOOKS, floor, p_value, share_evidence, symmetry_evidence
from gradlab.analysis.rules.component import LOOKS as COMPONENT_LOOKS
from gradlab.analysis.rules.component import Component, pseudo_values
from gradlab.analysis.rules.prediction import bootstrap_interval, permutation_p
from gradlab.analysis.sample import UNKNOWN, Sample
from gradlab.spec.metric import Metric, infer
from gradlab.trials.metrics import METRICS


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


@pytest.mark.parametrize("sizes", [(1, 2, 3, 4, 5, 6), (1, 1, 1, 1), (9, 1, 1e9, 0, math.inf, 2, math.inf)])
def test_evidence_of_symmetry_is_a_fair_bet_whatever_the_sizes(sizes: tuple[float, ...]) -> None:
    """Over all signs, each as likely as another, the capital stays 1; of the first seeds alone too."""
    for n in range(1, len(sizes) + 1):
        flips = product((1.0, -1.0), repeat=n)
        bets = [
            math.exp(symmetry_evidence([sign * size if size else 0.0 for sign, size in zip(flip, sizes, strict=False)]))
            for flip in flips
        ]
        assert np.mean(bets) == pytest.approx(1.0)


def test_evidence_of_symmetry_is_free_of_scale_and_grows_with_every_seed_on_one_side() -> None:
    values = [3.0, -1.0, 2.0, 5.0]
    assert symmetry_evidence(values) == pytest.approx(symmetry_evidence([1e-9 * value for value in values]))
    growing = [symmetry_evidence([1.0 + i / 10 for i in range(n)]) for n in range(1, 20)]
    assert growing == sorted(growing)
    assert symmetry_evidence([1e-9, 1e-9], unresolved=1e-8) == 0.0


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
            Component(values[:, None] * np.array([1.0, -1.0]) + rng.normal(0, 0.1, (n, 2))),
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
    values = np.random.default_rng(3).normal(3, 1, 5)
    rule = known(two_arms(infer("score"), sample(*values), sample(*np.zeros(5))))
    exact = stats.ttest_1samp(values, 0.2, alternative="greater").pvalue
    assert rule.p_above(0.2) == pytest.approx(max(exact, floor(5)) / LOOKS[5], rel=1e-3)
    assert sum(LOOKS.values()) + ANYTIME == pytest.approx(1)
    assert sum(COMPONENT_LOOKS.values()) == pytest.approx(1)


def test_a_planned_look_at_ten_pairs_is_no_surer_than_all_sign_flips_allow() -> None:
    """Nine differences that are nearly equal and one far on the other side: Student's t alone would be sure."""
    values = (1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01, 0.99, -0.1)
    rule = known(two_arms(infer("score"), sample(*values), sample(*np.zeros(10))))
    flips = np.array(list(product((1, -1), repeat=10))) @ np.abs(values)
    exact = float(np.mean(flips >= sum(values) - 1e-9))
    student = stats.ttest_1samp(values, 0, alternative="greater").pvalue
    assert student < exact
    assert rule.p_above(0) >= exact


def test_a_smaller_level_makes_few_pairs_stricter() -> None:
    """Five equal large differences come about by chance where arms collapse: they pass among 5 claims, not among 6."""
    values = sample(*[0.87] * 5)
    rule = known(two_arms(infer("score"), values, sample(*np.zeros(5)), resolution=1e-6))
    assert 0.05 / 6 < 2 * rule.p_above(0) <= 0.05 / 5
    three = known(two_arms(infer("score"), sample(*[0.87] * 3), sample(*np.zeros(3)), resolution=1e-6))
    assert three.p_above(0) == 1.0
    assert three.estimate.bounded


def test_first_seeds_do_not_outlive_what_later_ones_say() -> None:
    values = [1.0, 1.01, 0.99, 1.0, 1.01] + [-1.0, -1.01, -0.99, -1.02] * 4
    rule = known(two_arms(infer("score"), sample(*values), sample(*np.zeros(len(values)))))
    assert rule.p_above(0) > 0.05


def test_pairs_without_a_number_count_against_both_sides() -> None:
    clear = {seed: (9.0 + seed / 10, 9.0 + seed / 10) for seed in range(5)}
    lost = Sample({**clear, **dict.fromkeys(range(5, 10), UNKNOWN)})
    rule = known(two_arms(infer("score"), lost, sample(*np.zeros(10))))
    assert rule.estimate.n == 10
    assert min(rule.p_above(0), rule.p_below(0)) > 0.05
    assert known(two_arms(infer("score"), Sample(clear), sample(*np.zeros(5)))).p_above(0) < 0.025


def test_two_networks_that_diverged_are_not_equal() -> None:
    both = known(two_arms(infer("final_loss"), sample(*[math.inf] * 10), sample(*[math.inf] * 10)))
    assert both.p_inside(0.99, 1.01) == 1.0
    assert (both.estimate.low, both.estimate.high) == (0.0, math.inf)


def test_a_pool_is_formed_cell_by_cell() -> None:
    """One cell in which both sides diverge leaves a loss open, and an accuracy between two ends."""
    fine, worse, gone = (sample(*[value] * 10) for value in (0.5, 1.0, math.inf))
    loss = known(pooled_arms(infer("final_loss"), [(fine, worse), (gone, gone)]))
    assert min(loss.p_above(1), loss.p_below(1)) > 0.05
    accuracy = METRICS["test_accuracy"]
    good, bad, lost = (sample(*[value] * 10) for value in (0.9, 0.2, -math.inf))
    pair = known(pooled_arms(accuracy, [(good, bad), (lost, lost)]))
    assert (pair.low[0], pair.high[0]) == (pytest.approx((0.7 - 1) / 2), pytest.approx((0.7 + 1) / 2))
    three = known(pooled_arms(accuracy, [(good, bad), (good, bad), (good, lost)]))
    assert three.low == three.high == tuple([pytest.approx((0.7 + 0.7 + 0.9) / 3)] * 10)


def test_seeds_count_in_the_order_in_which_they_were_planned() -> None:
    """A seed added in front is not one of the first five."""
    clear = {seed: (value, value) for seed, value in zip((7, 8, 9, 10, 11), (1.0, 1.1, 0.9, 1.05, 0.95), strict=True)}
    added = dict.fromkeys((1, 2, 3), (-0.5, -0.5))
    zeros = dict.fromkeys((*clear, *added), (0.0, 0.0))
    late = known(two_arms(infer("score"), Sample({**clear, **added}), Sample(zeros)))
    first = known(two_arms(infer("score"), Sample(clear), Sample(zeros)))
    assert late.p_above(0) == first.p_above(0) < 0.025


def test_copies_of_a_network_count_once() -> None:
    copied = frozenset(range(1, 10))
    same = Sample(sample(*[0.3] * 10).ends, copies=copied)
    alone = known(one_arm(infer("final_loss"), same))
    assert alone.estimate.n == 1
    assert alone.p_below(1.0) > 0.05
    pair = known(two_arms(infer("final_loss"), same, Sample(sample(*[0.4] * 10).ends, copies=copied)))
    assert (pair.estimate.n, pair.p_below(1.0)) == (1, 1.0)
    varied = known(two_arms(infer("final_loss"), same, sample(*np.linspace(0.4, 0.5, 10))))
    assert varied.estimate.n == 10
    assert 2 * varied.p_below(1.0) <= 0.05


def test_a_declared_symmetry_settles_one_arm_with_fewer_seeds() -> None:
    values = sample(0.50, 0.52, 0.49, 0.51, 0.5)
    assumed = known(one_arm(infer("final_loss"), values, symmetric=True))
    assert 2 * assumed.p_below(0.7) <= 0.05 < 2 * known(one_arm(infer("final_loss"), values)).p_below(0.7)
    assert assumed.estimate.low is not None
    assert 0.4 < assumed.estimate.low < 0.5


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
    assert sure.p_above(0) == pytest.approx(floor(5) / LOOKS[5])
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


def test_variance_components_are_tested_at_their_looks_only() -> None:
    """Pseudo-values of the first seeds change with later ones: a test after every seed would not be valid."""
    levels = np.random.default_rng(3).normal([0.0, 1.0, 2.0], 0.3, (12, 3))
    at_five = Component(levels[:5]).p_above(0)
    assert at_five < 1
    assert [Component(levels[:n]).p_above(0) for n in range(6, 10)] == [at_five] * 4
    assert Component(levels[:4]).p_above(0) == 1
    assert Component(levels[:10]).p_above(0) < at_five


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


def test_primary_claims_are_tested_first_and_hand_on_what_they_spent() -> None:
    def levels(strengths: list[float], primary: list[bool]) -> list[float]:
        return [level.claim for level in claim_levels(strengths, primary)]

    assert levels([0.04, 0.02, 0.03], [True, False, False]) == [0.05, 0.025, 0.05]
    assert levels([0.06, 0.001, 0.001], [True, False, False]) == [0.05, 0.0, 0.0]
    assert levels([0.01, 0.2, 0.001], [True, True, False]) == [0.025, 0.025, 0.025]
    assert levels([0.001, 0.04], [False, False]) == [0.025, 0.05]


def test_a_p_value_is_at_most_one() -> None:
    assert p_value(-3.0) == 1.0
    assert p_value(math.log(40)) == pytest.approx(1 / 40)


def test_evidence_of_many_seeds_ranks_each_among_those_before_it() -> None:
    values = np.round(np.random.default_rng(4).normal(0.1, 1, 300), 1)
    sizes = np.abs(values)
    ranks = [sum(sizes[: i + 1] < size) + (sum(sizes[: i + 1] == size) + 1) / 2 for i, size in enumerate(sizes)]
    scores = stats.norm.ppf(0.5 + 0.5 * np.array(ranks) / np.arange(2, 302))
    kept = values != 0
    bets = [
        np.prod(2 / (1 + np.exp(-2 * stake * scores[kept] * np.sign(values[kept]))))
        for stake in 2.0 ** np.arange(-5, 3)
    ]
    signs = math.exp(share_evidence(int((values > 0).sum()), int(kept.sum()), 0.5))
    assert math.exp(symmetry_evidence(values)) == pytest.approx(2 / 3 * np.mean(bets) + 1 / 3 * signs)

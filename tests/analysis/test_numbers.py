"""Published numbers: what a printed number means, where a new seed falls, and which measure it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from given_numbers import GivenNumbers

import gradlab
from gradlab.analysis.claims.numbers import compare_numbers
from gradlab.analysis.rules.prediction import predict_seed, says_little
from gradlab.analysis.sample import UNKNOWN, Sample
from gradlab.errors import StudyError
from gradlab.report.story import count_claims
from gradlab.spec.claims import read_stated
from gradlab.spec.metric import Metric, infer
from gradlab.tell.findings import fit_measures


@pytest.mark.parametrize(
    ("printed", "low", "high"),
    [
        (0.063, 0.0625, 0.0635),
        ("0.0630", 0.06295, 0.06305),
        ("~0.9", 0.85, 0.95),
        ("0.96–0.97", 0.955, 0.975),
        ("7.6e-3 to 1.0e-2", 7.55e-3, 1.05e-2),
        (1.06e8, 1.055e8, 1.065e8),
        ("8.65e-19", 8.645e-19, 8.655e-19),
        ("0.0000", -5e-5, 5e-5),
        ("-1.5", -1.55, -1.45),
        (5, 4.5, 5.5),
        (0, 0, 0),
        ("0", 0, 0),
        ("0.0", -0.05, 0.05),
    ],
)
def test_a_printed_number_means_all_that_round_to_it(printed: float | str, low: float, high: float) -> None:
    stated = read_stated(printed)
    assert stated.low == pytest.approx(low)
    assert stated.high == pytest.approx(high)


@pytest.mark.parametrize("printed", ["", "about a third", "1–2–3", "nan", "0.97–0.96", "inf"])
def test_what_is_not_a_number_is_refused(printed: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        read_stated(printed)


def test_a_published_word_is_refused_with_its_place(tree: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match=r"published\.1\.value: 'many'"):
        gradlab.load({**tree, "published": [{"metric": "final_loss", "arms": "plain", "value": "many"}]})


def sample(*values: float) -> Sample:
    return Sample({seed: (value, value) for seed, value in enumerate(values)})


LOSS, ACCURACY = infer("final_loss"), Metric.of("test_accuracy", "accuracy")


@pytest.mark.parametrize("n", [3, 5, 10, 38, 39, 200])
@pytest.mark.parametrize("draw", ["normal", "lognormal"])
def test_one_more_seed_falls_inside_in_95_percent_of_the_cases(n: int, draw: str) -> None:
    rng = np.random.default_rng(n)
    metric = LOSS if draw == "lognormal" else Metric.of("x", "other")
    inside, tries = 0, 1500
    for _ in range(tries):
        *seen, new = getattr(rng, draw)(0, 1, n + 1)
        found = predict_seed(metric, sample(*seen))
        assert found is not None
        inside += found.low <= new <= found.high
    assert inside / tries >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / tries)


def test_a_bimodal_arm_predicts_both_modes() -> None:
    found = predict_seed(ACCURACY, sample(*[0.1135] * 9, 0.85))
    assert found is not None
    assert (found.low, found.high) == (0.0, pytest.approx(0.85))
    assert found.high <= 1


def test_zeros_and_diverged_seeds_extend_the_interval() -> None:
    zeros = predict_seed(LOSS, sample(0.0, 1.0, 1.1, 0.9), trained=False)
    assert zeros is not None
    assert zeros.low == 0
    assert zeros.high < 10
    diverged = predict_seed(LOSS, sample(1.0, 1.1, math.inf))
    assert diverged is not None
    assert diverged.high == math.inf


def test_too_few_seeds_with_a_number_predict_nothing() -> None:
    assert predict_seed(LOSS, sample(1.0, 2.0)) is None
    missing = Sample({**sample(*np.linspace(1, 2, 2)).ends, **dict.fromkeys(range(2, 10), UNKNOWN)})
    assert predict_seed(LOSS, missing) is None
    one_failed = Sample({**sample(*np.linspace(1, 2, 9)).ends, 9: UNKNOWN})
    assert predict_seed(LOSS, one_failed) is None  # nobody knows where it would have fallen
    few_of_many = Sample({**sample(*np.linspace(1, 2, 50)).ends, **dict.fromkeys(range(50, 200), UNKNOWN)})
    assert predict_seed(LOSS, few_of_many) is None
    nearly_all = Sample({**sample(*np.linspace(1, 2, 197)).ends, **dict.fromkeys(range(197, 200), UNKNOWN)})
    found = predict_seed(LOSS, nearly_all)
    assert found is not None
    assert found.free
    assert 1 <= found.low < found.high <= 2


@pytest.mark.parametrize("n", [3, 5, 9, 10])
@pytest.mark.parametrize("share", [0.1, 0.25])
def test_one_more_seed_falls_inside_also_where_some_networks_collapse(n: int, share: float) -> None:
    rng, inside, tries = np.random.default_rng(n), 0, 1500
    for _ in range(tries):
        learned = rng.normal(0.96, 0.004, n + 1)
        *seen, new = np.where(rng.random(n + 1) < share, 0.1135, learned)
        found = predict_seed(ACCURACY, sample(*seen))
        assert found is not None
        inside += found.low <= new <= found.high
    assert inside / tries >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / tries)


def test_few_trained_networks_do_not_exclude_one_that_collapsed_and_initial_ones_cannot_collapse() -> None:
    accuracies = 0.96, 0.962, 0.958
    few = predict_seed(ACCURACY, sample(*accuracies))
    assert few is not None
    assert few.low == 0
    assert 0.962 < few.high < 1
    before = predict_seed(LOSS, sample(2.30, 2.31, 2.32), trained=False)
    assert before is not None
    assert 2.2 < before.low < before.high < 2.5
    equal = predict_seed(ACCURACY, sample(0.1135, 0.1135, 0.1135))
    assert equal is not None
    assert (equal.low, equal.high) == (0, 1)


@pytest.mark.parametrize("size", [1e-170, 1e-300, 1e170, 1e300])
@pytest.mark.parametrize("kind", ["other", "loss", "signed"])
def test_numbers_whose_squares_are_none_have_an_interval(size: float, kind: Any) -> None:
    values = np.linspace(1, 2, 12)
    found = predict_seed(Metric.of("x", kind), sample(*(size * values)))
    plain = predict_seed(Metric.of("x", kind), sample(*values))
    assert found is not None
    assert plain is not None
    assert (found.low, found.high) == pytest.approx((size * plain.low, size * plain.high))


@pytest.mark.parametrize(
    ("metric", "low", "high", "little"),
    [
        (ACCURACY, 0.0, 1.0, True),
        (ACCURACY, 0.3, 0.9, True),
        (ACCURACY, 0.9, 0.97, False),
        (LOSS, 0.01, 0.2, True),
        (LOSS, 0.0, 1e-9, True),
        (LOSS, 0.05, math.inf, True),
        (LOSS, 0.05, 0.4, False),
        (Metric.of("x", "signed"), -1e9, 1e9, False),
        (Metric.of("x", "signed"), -math.inf, 1.0, True),
    ],
)
def test_an_interval_that_leaves_hardly_any_number_outside_says_little(
    metric: Metric, low: float, high: float, little: bool
) -> None:
    assert says_little(metric, low, high) == little


def test_a_sentence_and_its_number_get_an_answer_each(tree: dict[str, Any]) -> None:
    claim = {"text": "t", "metric": "final_loss", "arms": "plain", "op": "<", "value": 1e9, "published": "1e-30"}
    (verdict,) = gradlab.run({**tree, "claims": [claim], "seeds": 7}).verdicts
    assert (verdict.outcome, verdict.number) == ("reproduced", "not consistent")
    assert verdict.words == "holds"  # nobody published it
    (verdict,) = gradlab.run({**tree, "claims": [{**claim, "from": "text"}], "seeds": 7}).verdicts
    assert verdict.words == "reproduced"
    assert verdict.to_json()["published_numbers"][0]["published"] == "1e-30"


def test_a_reduced_budget_compares_no_published_number_of_the_end(tree: dict[str, Any]) -> None:
    published = [
        {"metric": "final_loss", "arms": "plain", "value": 1},
        {"metric": "initial_loss", "arms": "plain", "value": 1},
    ]
    result = gradlab.run({**tree, "published": published, "quick": {"seeds": 3}}, quick=True)
    assert [row.outcome == "not tested" for row in compare_numbers(result.measured)] == [True, False]


def test_the_same_place_from_text_and_code_is_two_numbers(tree: dict[str, Any]) -> None:
    entry = {"metric": "final_loss", "arms": "plain", "value": 1}
    result = gradlab.run({**tree, "published": [entry, {**entry, "from": "code"}]})
    assert [row.origin for row in compare_numbers(result.measured)] == ["text", "code"]


def test_the_measure_that_fits_layer_numbers_is_found(tree: dict[str, Any]) -> None:
    """Numbers of δ that were published as those of the weight gradient are recognized."""
    first = gradlab.run(tree)
    told = [first.measured.summary("delta_l2", "plain", at).median for at in _places()]
    entry = {
        "metric": "grad_l2",
        "arms": "plain",
        "at": {"layer": [1, 2, 3], "step": "end"},
        "value": [f"{number:.3g}" for number in told],
        "guessed": True,
    }
    (fits,) = fit_measures(gradlab.run({**tree, "published": [entry]}).measured)
    assert fits.best[0].measure == "delta_l2"
    assert fits.best[0].factor == pytest.approx(1, abs=0.01)
    assert "(`delta_l2`) best" in fits.sentence
    assert "weight gradient" in fits.sentence
    stated = gradlab.run({**tree, "published": [{**entry, "guessed": False}]})
    assert fit_measures(stated.measured) == ()  # a measure that the write-up names is not guessed at


def _places() -> list[Any]:
    from gradlab.spec.claims import At

    return [At(layer=layer, step="end") for layer in (1, 2, 3)]


def test_the_smallest_and_largest_over_layers_are_of_each_network(tree: dict[str, Any]) -> None:
    from gradlab.spec.claims import At

    measured = gradlab.run(tree).measured
    profile = measured.profile("grad_l2", "plain", "end").values
    low = measured.values("grad_l2", "plain", At(layer="smallest", step="end"))
    high = measured.values("grad_l2", "plain", At(layer="largest", step="end"))
    assert list(low.values()) == profile.min(1).tolist()
    assert list(high.values()) == profile.max(1).tolist()


def test_how_often_the_loss_rises_is_read_off_its_curve(tree: dict[str, Any]) -> None:
    measured = gradlab.run(tree).measured
    curves = measured.curves_by_seed("loss", "plain")
    for seed, share in measured.values("loss_rises", "plain").items():
        losses = curves[seed][1]
        assert share == np.mean(losses[1:] > losses[:-1])
    claim = {"text": "t", "metric": "loss_rises", "arms": ["plain", "residual"], "op": ">"}
    assert gradlab.run({**tree, "claims": [claim]}).verdicts[0].outcome != "not tested"


def numbers(tree: dict[str, Any], values: Any, **study: Any) -> tuple[Any, ...]:
    """Published numbers of a study whose results are given: group -> values by seed, without the missing seeds."""
    return compare_numbers(given(tree, values, **study))


def given(tree: dict[str, Any], values: Any, **study: Any) -> GivenNumbers:
    train = {**tree["base"]["train"], "loss": "cross_entropy"}
    classified = {"data": {"task": "moons"}, "model": {"depth": 3, "width": 4}, "train": train}
    seeds = max(map(len, values.values()))
    return GivenNumbers(gradlab.plan({**tree, "base": classified, "seeds": seeds, **study}), numbers=values)


LEARNED = tuple(0.96 + 0.001 * np.linspace(-1, 1, 10))
SOME_COLLAPSED = (0.1135, 0.1135, 0.1135, *LEARNED[3:])
ENTRY = {"metric": "test_accuracy", "arms": "plain", "value": "0.96"}


@pytest.mark.parametrize(
    ("values", "published", "outcome"),
    [
        (LEARNED, "0.96", "consistent"),
        (LEARNED, "0.50", "not consistent"),
        (SOME_COLLAPSED, "0.50", "says little"),
        (LEARNED[:5], "0.96", "says little"),
        (LEARNED[:5], "0.99", "not consistent"),
        (LEARNED, "1", "says little"),  # everything from 0.5 on rounds to it
        (LEARNED, 0, "not consistent"),
    ],
)
def test_a_published_number_is_consistent_only_if_others_would_not_be(
    tree: dict[str, Any], values: Any, published: Any, outcome: str
) -> None:
    (row,) = numbers(tree, {"plain": values}, published=[{**ENTRY, "value": published}])
    assert row.outcome == outcome


@pytest.mark.parametrize("done", [0, 1, 2, 5])
def test_planned_seeds_without_a_result_make_no_number_consistent(tree: dict[str, Any], done: int) -> None:
    entries = [{**ENTRY, "value": value} for value in ("0.5", "0.96")]
    study = {"published": [entries[0], {**entries[1], "from": "code"}], "seeds": 6}
    rows = numbers(tree, {"plain": LEARNED[:done]}, **study)
    assert [row.outcome for row in rows] == ["not settled", "not settled"]
    assert {(row.seeds, row.planned) for row in rows} == {(done, 6)}
    assert count_claims((), rows) == ""


@pytest.mark.parametrize("op", [">", "ratio"])
def test_a_number_of_two_arms_is_compared_on_the_scale_of_its_row(tree: dict[str, Any], op: str) -> None:
    claim = {"text": "t", "metric": "test_accuracy", "arms": ["plain", "residual"], "op": op}
    claim |= {"value": 1.0} if op == "ratio" else {}
    low = tuple(0.35 + 0.001 * np.linspace(-1, 1, 10))
    for published in ("0.610", "2.74"):
        (row,) = numbers(tree, {"plain": LEARNED, "residual": low}, claims=[{**claim, "published": published}])
        fitting = (published == "0.610") == (op == ">")
        assert row.outcome == ("consistent" if fitting else "not consistent")


def test_a_ratio_of_losses_stays_a_ratio(tree: dict[str, Any]) -> None:
    claim = {"text": "t", "metric": "final_loss", "arms": ["plain", "residual"], "op": ">", "published": "2.0"}
    (row,) = numbers(tree, {"plain": LEARNED, "residual": tuple(v / 2 for v in LEARNED)}, claims=[claim])
    assert row.outcome == "consistent"
    assert " / " in row.group


def test_numbers_of_other_data_are_not_comparable_and_counted_apart(tree: dict[str, Any]) -> None:
    reason = "published for another network"
    for said, why in (({"not_comparable": reason}, reason), ({"other_data": "MNIST"}, "not for MNIST")):
        (row,) = numbers(tree, {"plain": LEARNED}, published=[ENTRY], **said)
        assert row.outcome == "not comparable"
        assert row.incomparable is not None
        assert why in row.incomparable
        assert row.to_json()["not_comparable"] == row.incomparable
        assert count_claims((), [row]).startswith("1 published number")


def test_the_tally_counts_what_says_little_apart(tree: dict[str, Any]) -> None:
    published = [ENTRY, {**ENTRY, "arms": "residual", "value": "0.5"}]
    rows = numbers(tree, {"plain": LEARNED, "residual": SOME_COLLAPSED}, published=published)
    assert [row.outcome for row in rows] == ["consistent", "says little"]
    assert count_claims((), rows).startswith("1 of 1 ")

"""Published numbers: what a printed number means, where a new seed falls, and which measure it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.analysis.claims.numbers import compare_numbers
from gradlab.analysis.fit import fit_measures
from gradlab.analysis.rules.prediction import predict_seed
from gradlab.analysis.sample import UNKNOWN, Sample
from gradlab.errors import StudyError
from gradlab.spec.metric import Metric, infer
from gradlab.spec.published import read_stated


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
    ],
)
def test_a_printed_number_means_all_that_round_to_it(printed: float | str, low: float, high: float) -> None:
    stated = read_stated(printed)
    assert stated.low == pytest.approx(low)
    assert stated.high == pytest.approx(high)


@pytest.mark.parametrize("printed", ["", "about a third", "1–2–3", "nan", "0.97–0.96", "inf"])
def test_what_is_not_a_number_is_refused(printed: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        read_stated(printed)


def test_a_published_word_is_refused_with_its_place(tree: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match=r"published\.1\.value: 'many' is not a number"):
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


def test_zeros_diverged_and_unknown_seeds_extend_the_interval() -> None:
    zeros = predict_seed(LOSS, sample(0.0, 1.0, 1.1, 0.9))
    assert zeros is not None
    assert zeros.low == 0
    assert zeros.high < 10
    diverged = predict_seed(LOSS, sample(1.0, 1.1, math.inf))
    assert diverged is not None
    assert diverged.high == math.inf
    unknown = predict_seed(LOSS, Sample({0: (1.0, 1.0), 1: (1.1, 1.1), 2: UNKNOWN}))
    assert unknown is not None
    assert (unknown.low, unknown.high) == (0, math.inf)
    assert predict_seed(LOSS, sample(1.0, 2.0)) is None


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
    }
    (fits,) = fit_measures(gradlab.run({**tree, "published": [entry]}).measured)
    assert fits.best[0].measure == "delta_l2"
    assert fits.best[0].factor == pytest.approx(1, abs=0.01)
    assert "(`delta_l2`) best" in fits.sentence
    assert "weight gradient" in fits.sentence


def _places() -> list[Any]:
    from gradlab.spec.place import At

    return [At(layer=layer, step="end") for layer in (1, 2, 3)]


def test_the_smallest_and_largest_over_layers_are_of_each_network(tree: dict[str, Any]) -> None:
    from gradlab.spec.place import At

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

"""Scores are parts: what is evaluated after an epoch is declared once, and everything else follows."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.errors import GradlabError
from gradlab.scores import Accuracy, CalibrationError
from gradlab.testing import check_file

STUDY: dict[str, Any] = {
    "question": "Is it calibrated?",
    "base": {
        "data": {"task": "mnist", "train": 200, "validation": 100, "test": 100},
        "model": {"depth": 2, "width": 8},
        "train": {"loss": "cross_entropy", "optimizer": "adam", "lr": 0.01, "batch": 50, "epochs": 2},
    },
    "arms": {"a": {}, "b": {"train.lr": 0.02}},
    "factor": "train.lr",
    "seeds": 2,
}
WITH = {**STUDY, "measure": {"scores": ["accuracy", "calibration_error"]}}
MARGIN = """
    from gradlab.parts import Score

    class Margin(Score):
        '''Mean lead of the right class.'''
        name = "margin"
        kind = "signed"
        targets = "classes"

        def value(self, output, target):
            rows = range(len(target))
            return float((output[rows, target] - output.mean(1)).mean())
"""


def test_a_sure_and_right_network_is_calibrated_and_a_sure_and_wrong_one_is_not() -> None:
    output, target = 50 * np.eye(3), np.array([0, 1, 2])
    assert CalibrationError().value(output, target) == pytest.approx(0, abs=1e-12)
    assert CalibrationError().value(output, (target + 1) % 3) == pytest.approx(1)
    unsure = np.log(np.array([[0.6, 0.4]] * 5))
    assert CalibrationError().value(unsure, np.array([0, 0, 0, 1, 1])) == pytest.approx(0, abs=1e-12)
    assert Accuracy().value(output, target) == 1


def test_a_score_that_is_asked_for_is_measured_claimed_and_stored(tmp_path: Path) -> None:
    claim = {"text": "It is off", "metric": "test_calibration_error", "arms": "a", "op": ">", "value": 0}
    result = gradlab.run({**WITH, "claims": [claim]}, out=tmp_path / "run", figures=False)
    values = result.measured.values("test_calibration_error", "a")
    assert all(0 < value < 1 for value in values.values())
    assert result.measured.metric("test_calibration_error").better == "lower"
    assert "validation_calibration_error" in set(result.curves()["metric"])
    assert len(result.verdicts) == 1
    again = gradlab.open_run(tmp_path / "run")
    assert again.measured.values("test_calibration_error", "a") == values


def test_studies_without_further_scores_keep_their_ids_and_their_tables() -> None:
    plain, more = gradlab.plan(STUDY), gradlab.plan(WITH)
    written = gradlab.plan({**STUDY, "measure": {"scores": ["accuracy"]}})
    assert [group.id for group in plain.groups] == [group.id for group in written.groups]
    assert plain.groups[0].id != more.groups[0].id
    assert "test_calibration_error" not in gradlab.run(plain).measured.metrics


def test_training_can_react_to_a_score() -> None:
    tree = {**WITH, "measure": {**WITH["measure"], "best": "validation_calibration_error"}}
    tree["base"] = {**STUDY["base"], "train": {**STUDY["base"]["train"], "early_stopping": {"by": "validation_loss"}}}
    result = gradlab.run(tree)
    assert set(result.measured.values("best_epoch", "a").values()) <= {1, 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"measure": {"scores": ["acuracy"]}}, "measure.scores.1: 'acuracy' is not known; did you mean 'accuracy'?"),
        ({"measure": {"best": "validation_acuracy"}}, "did you mean 'validation_accuracy'?"),
        ({"measure": {"best": "test_calibration_error"}}, "needs measure.scores: [accuracy, calibration_error]"),
        ({"headline": {"metric": "test_calibration_error"}}, "needs measure.scores: [accuracy, calibration_error]"),
    ],
)
def test_a_score_that_is_not_there_is_named_with_what_to_do(change: dict[str, Any], message: str) -> None:
    with pytest.raises(GradlabError) as refused:
        gradlab.plan({**STUDY, **change})
    assert message in str(refused.value)


def test_a_score_of_the_users_own_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "margin.py"
    path.write_text(dedent(MARGIN))
    assert [problem for report in check_file(path) for problem in report.problems] == []
    result = gradlab.run({**STUDY, "parts": [str(path)], "measure": {"scores": ["accuracy", "margin"]}})
    assert set(result.measured.values("test_margin", "a")) == {0, 1}

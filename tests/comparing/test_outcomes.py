"""What a training function may return, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gradlab.comparing.outcomes import make_outcome
from gradlab.errors import InvalidInput


def test_numbers_of_any_kind_are_metrics_and_missing_stays_missing() -> None:
    found = make_outcome({"a": 1, "b": 2.5, "c": np.float32(3), "d": np.array(4), "e": True, "f": None})
    assert dict(found.metrics) == {"a": 1, "b": 2.5, "c": 3.0, "d": 4, "e": 1, "f": None}
    assert found.status == "done"
    assert found.curves == ()
    assert dict(make_outcome(0.75).metrics) == {"score": 0.75}


def test_lists_are_curves_whose_last_value_is_the_metric() -> None:
    found = make_outcome({"loss": [3, 2, 1], "reward": {0: 1.0, 50: 2.0}, "x": np.arange(2.0)})
    assert found.metrics["loss"] == 1
    assert found.metrics["reward"] == 2
    assert {curve.metric: curve.steps.tolist() for curve in found.curves} == {
        "loss": [1, 2, 3],
        "reward": [0, 50],
        "x": [1, 2],
    }


@pytest.mark.parametrize(
    ("returned", "step"),
    [({"loss": [1.0, math.nan, 2.0]}, 2), ({"val_loss": {0: 1.0, 7: math.inf}}, 7), ({"loss": math.inf}, None)],
)
def test_a_loss_that_is_not_finite_is_divergence(returned: Any, step: int | None) -> None:
    found = make_outcome(returned)
    assert found.status == "diverged"
    assert found.metrics.get("diverged_step") == step


def test_another_metric_may_be_infinite() -> None:
    assert make_outcome({"steps_needed": math.inf}).status == "done"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({3: 1}, "short printable names"),
        ({"a": "good"}, "'good' under 'a'"),
        ({"a": [1, "x"]}, "under 'a'"),
        ({"a": {5: 1.0, 4: 1.0}}, "must be increasing"),
        ({"a": object()}, "under 'a'"),
        ("words", "must return names"),
        ([1, 2], "must return names"),
    ],
)
def test_a_value_that_cannot_be_stored_is_named(returned: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_outcome(returned)


@pytest.mark.parametrize("value", [10**400, -(10**400), [1, 10**400], {1: 10**400}])
def test_a_number_beyond_the_float_range_is_named(value: Any) -> None:
    with pytest.raises(InvalidInput, match="hexadecimal digits"):
        make_outcome({"score": value})

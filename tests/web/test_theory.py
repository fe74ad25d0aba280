"""The theory line of the layer view and its band over seeds: what `gradlab.predict` says, as the page draws it."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from lab_server import TINY

from gradlab.errors import StudyError
from gradlab.plans.plan import Plan
from gradlab.theory.prediction import Forecast
from gradlab.web import frames
from gradlab.web.frames import NetworkView
from gradlab.web.pair import Pair
from gradlab.web.settings import plan_settings, read_settings
from gradlab.web.uploads import Uploads


def plan_of(uploads: Uploads, **changes: Any) -> Plan:
    tree = {"steps": 1, "a": TINY, "b": {**TINY, "skip": "identity"}, **changes}
    return plan_settings(read_settings(tree), uploads)


def test_lines_and_bands_are_the_forecasts_where_there_are_any(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {
        "delta_rms": {number: Forecast(10.0**-number, 0.5, "exact") for number in (1, 2)},
        "activation_mean.post": {1: Forecast(3.0, 9.0, "exact", signed=True)},
        "activation_std.post": {1: Forecast(4.0, 0.1, "simulated")},
        "grad_rms": {1: Forecast(math.inf, 1.0, "order")},
    }
    found = {"A": SimpleNamespace(forecasts=whole), "B": SimpleNamespace(forecasts={})}
    monkeypatch.setattr(frames, "predict_plan", lambda plan: found)
    expected = frames.predict_layers(plan_of(uploads))
    assert expected is not None
    delta = expected[0]["delta"]
    assert delta["center"][:3] == [0.1, 0.01, None]
    assert delta["low"][0] == pytest.approx(0.1 * math.exp(-1.96 * 0.5), rel=1e-3)
    assert delta["high"][1] == pytest.approx(0.01 * math.exp(1.96 * 0.5), rel=1e-3)
    signal = expected[0]["signal"]
    assert (signal["center"][0], signal["kind"]) == (5.0, "simulated")
    assert signal["high"][0] == pytest.approx(5 * math.exp(0.196), rel=1e-3)
    assert set(expected[0]["gradient"]["center"]) == set(expected[1]["delta"]["high"]) == {None}


def test_networks_that_theory_does_not_cover_have_no_line(uploads: Uploads, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(plan: Plan) -> None:
        raise StudyError("not covered")

    monkeypatch.setattr(frames, "predict_plan", refuse)
    assert frames.predict_layers(plan_of(uploads)) is None


@pytest.mark.parametrize("arm", [{"depth": 12, "width": 32}, {"depth": 12, "width": 32, "skip": "identity"}])
def test_most_seeds_start_inside_the_bands(uploads: Uploads, arm: dict[str, Any]) -> None:
    changes = {"task": "moons", "a": {**TINY, **arm}, "b": {**TINY, **arm}}
    expected = frames.predict_layers(plan_of(uploads, **changes))
    assert expected is not None
    inside: dict[str, list[bool]] = {"signal": [], "delta": [], "gradient": []}
    for seed in range(40):
        pair = Pair(plan_of(uploads, **changes, seed=seed))
        network = NetworkView(pair.setups[0])
        network.take(pair.state().arms[0])
        seen = network.measure()
        for row, within in inside.items():
            own = expected[0][row]
            edges = zip(getattr(seen, row), own["low"], own["high"], strict=True)
            within += [low <= value <= high for value, low, high in edges if low is not None and high is not None]
    for row, within in inside.items():
        exact = expected[0][row]["kind"] != "order"
        assert np.mean(within) > (0.9 if exact else 0.6), row
    assert expected[0]["signal"]["kind"] == "exact"

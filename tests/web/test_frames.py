"""Frames: the numbers of the probes at a fraction of their cost, and when the next one is due."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from lab_server import TINY

from gradlab.trials.measuring import measure
from gradlab.web.frames import MOST_LOSSES, TESTED, Curve, EvaluatedSamples, NetworkView
from gradlab.web.pair import Pair
from gradlab.web.session import BUSY, IDLE, LATEST, SOONEST, Effort, Moment, Pace
from gradlab.web.settings import plan_settings, read_settings
from gradlab.web.uploads import Uploads


def pair_of(uploads: Uploads, task: str, steps: int, **arm: Any) -> Pair:
    settings = read_settings({"task": task, "steps": 20, "a": {**TINY, **arm}, "b": {**TINY, **arm, "skip": "rezero"}})
    with np.errstate(all="ignore"):
        pair = Pair(plan_settings(settings, uploads))
        pair.advance(steps)
    return pair


@pytest.mark.parametrize(
    "arm",
    [
        {},
        {"skip": "identity", "norm": "batch"},
        {"skip": "pre_activation", "norm": "layer", "activation": "tanh"},
        {"depth": 60, "scale": 0.01},  # sizes whose squares no float32 holds
        {"depth": 60, "scale": 100.0},
    ],
)
def test_the_layer_view_has_the_numbers_of_the_probes(uploads: Uploads, arm: dict[str, Any]) -> None:
    pair = pair_of(uploads, "xor", 7, **arm)
    for learner in pair.learners:
        setup, trainer, state = learner.setup, learner.trainer, learner.state()
        view = NetworkView(setup)
        view.take(state)
        seen = view.measure()
        found: dict[int, dict[str, float]] = {}
        with np.errstate(all="ignore"):
            for number, numbers in measure(setup, "during", state.theta, state.running, trainer.state().update):
                found.setdefault(number, {}).update(numbers)
        for index, numbers in enumerate(found.values()):
            place = "stream" if "activation_std.stream" in numbers else "post"
            signal = np.hypot(numbers[f"activation_mean.{place}"], numbers[f"activation_std.{place}"])
            assert seen.signal[index] == pytest.approx(signal, rel=1e-9, nan_ok=True)
            assert seen.delta[index] == pytest.approx(numbers["delta_rms"], rel=1e-9, nan_ok=True)
            assert seen.gradient[index] == pytest.approx(numbers["grad_rms"], rel=1e-9, nan_ok=True)
            assert seen.dead[index] == numbers["dead_share"]


def test_what_is_looked_at_is_a_copy_of_what_is_trained(uploads: Uploads) -> None:
    pair = pair_of(uploads, "xor", 3)
    for learner in pair.learners:
        trainer, before = learner.trainer, learner.state()
        assert np.array_equal(before.theta, trainer.state().theta)
    states = pair.state()
    kept = [arm.theta.copy() for arm in states.arms]
    pair.advance(9)
    assert all(np.array_equal(arm.theta, theta) for arm, theta in zip(states.arms, kept, strict=True))
    assert not np.array_equal(pair.state().arms[0].theta, kept[0])


@pytest.mark.parametrize("arm", [{}, {"norm": "batch"}])
def test_accuracy_is_that_of_the_trainer_on_the_first_held_out_samples(uploads: Uploads, arm: dict[str, Any]) -> None:
    pair = pair_of(uploads, "moons", 20, **arm)
    setup, view = pair.setups[0], NetworkView(pair.setups[0])
    view.take(pair.state().arms[0])
    x, y = setup.dataset.gather(setup.dataset.test[:TESTED], setup.dtype)
    right = float(np.mean(pair.learners[0].trainer.predict(x).argmax(1) == y))
    assert 0.5 < right < 1
    assert EvaluatedSamples(setup, None).evaluate(view) == {"accuracy": pytest.approx(right, abs=1e-4)}


def test_a_long_curve_is_sent_as_means_of_equal_stretches_and_grows_by_what_is_new() -> None:
    losses = np.arange(10_000.0)
    curve = Curve()
    for length in (0, 1, 7, 320, 321, 500, 1000, 9_999, 10_000):
        found, fresh = curve.thin(losses[:length]), Curve().thin(losses[:length])
        assert found == fresh
        assert len(found["y"]) <= MOST_LOSSES
        assert len(found["y"]) == math.ceil(length / found["every"])
    assert curve.thin(losses[:1000])["every"] == 4
    assert curve.thin(losses[:1000])["y"][:2] == [1.5, 5.5]
    assert Curve().thin(losses[:321])["y"][-1] == 320.0  # the last stretch is not full yet
    assert Curve().thin(np.array([1.0, math.nan]))["y"] == [1.0, None]
    assert Curve().thin(np.empty(0)) == {"every": 1, "y": []}


PLAYING = Moment(1, True, 2, 10)
LATER = PLAYING._replace(step=50)


def test_a_frame_is_due_when_training_has_earned_what_the_last_one_cost() -> None:
    effort = Effort()
    pace = Pace(effort)
    pace.spend(0.01, time=100.0)
    assert pace.until_next(PLAYING, LATER, 100.01) == pytest.approx(SOONEST - 0.01)
    effort.elapsed = effort.processor = 0.1  # busy all the time: half of it is earned
    assert pace.until_next(PLAYING, LATER, 100.1) > 0
    effort.elapsed = effort.processor = 0.01 / BUSY + 1e-9
    assert pace.until_next(PLAYING, LATER, 100.2) == 0
    pace.spend(0.01, time=200.0)
    assert pace.until_next(PLAYING, LATER, 200.0 + 0.01 / IDLE + SOONEST) == 0  # it waits for its page


def test_where_the_training_is_starved_frames_are_rare_and_never_later_than_a_second() -> None:
    effort = Effort()
    pace = Pace(effort)
    pace.spend(0.01, time=100.0)
    effort.since = 100.0  # one long stretch that gets hardly any processor
    assert 0 < pace.until_next(PLAYING, LATER, 100.9) <= 0.1
    assert pace.until_next(PLAYING, LATER, 100.0 + LATEST) == 0


def test_an_order_another_load_and_the_end_are_shown_at_once() -> None:
    pace = Pace(Effort(since=100.0))
    pace.spend(10.0, time=100.0)
    assert pace.until_next(PLAYING, LATER, 100.5) > 0
    for changed in (LATER._replace(told=3), LATER._replace(playing=False), LATER._replace(load=2)):
        assert pace.until_next(PLAYING, changed, 100.5) <= 0
        assert pace.until_next(PLAYING, changed, 100.01) == pytest.approx(SOONEST - 0.01)

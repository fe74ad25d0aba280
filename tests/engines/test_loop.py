"""The training loop: its calls of a trainer, and its use of the results. No engine is needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.engines import loop
from gradlab.engines.loop import State, Stretch, Trainer
from gradlab.parts import BUILT_IN
from gradlab.runs.worker import Stopped
from gradlab.testing.base import small_tree
from gradlab.trials import Setup, prepare


class Scripted(Trainer):
    """A fake trainer: every loss is the number of its step, until `diverges`; θ counts the steps."""

    def __init__(self, setup: Setup, *, diverges: int | None = None, longest: int = 4) -> None:
        self.setup, self.diverges, self.longest = setup, diverges, longest
        self.calls: list[tuple[int, int]] = []
        self.predictions = 0
        self.done = 0

    def advance(self, start: int, stop: int) -> Stretch:
        self.calls.append((start, stop))
        found = Stretch(seconds=1.0)
        for step in range(start, stop):
            if not found.add(math.nan if step == self.diverges else float(step), 1, 2):
                break
            self.done += 1
        return found

    def state(self) -> State:
        theta = self.setup.theta + self.done
        update = np.ones_like(theta) if self.done else None
        return State(theta, self.setup.mlp.initial_running(self.setup.dtype), update)

    def predict(self, x: np.ndarray) -> np.ndarray:
        self.predictions += 1
        return np.zeros((len(x), self.setup.dataset.output_width), x.dtype)

    def first_loss(self) -> float:
        return 42.0


def setup_of(train: dict[str, Any] | None = None, data: dict[str, Any] | None = None, **measure: Any) -> Setup:
    tree = small_tree() | {"arms": None, "measure": {"layers": [], **measure}}
    tree["base"]["train"] |= {"steps": 10, **(train or {})}
    if data is not None:
        tree["base"]["data"] = data
        tree["base"]["train"]["loss"] = "cross_entropy"
        tree["base"]["model"] |= {"stem": "linear", "head": "linear", "depth": 2}
    return prepare(gradlab.plan(tree).trials[0])


DIGITS = {"task": "mnist", "train": 40, "validation": 0, "test": 10}


def test_calls_are_consecutive_and_stop_where_something_is_due() -> None:
    trainer = Scripted(setup := setup_of(layers=["start", 3, "end"], weights=[7]))
    outcome = loop.train(setup, trainer)
    assert trainer.calls == [(0, 3), (3, 4), (4, 7), (7, 8), (8, 10)]
    assert outcome.curves[0].values.tolist() == list(range(10))
    assert sorted(set(outcome.layers.step.tolist())) == [0, 3, 10]
    assert [kept.step for kept in outcome.snapshots] == [7]
    assert np.array_equal(outcome.snapshots[0].theta, setup.theta + 7)
    assert np.array_equal(outcome.theta, setup.theta + 10)
    assert outcome.metrics["initial_loss"] == 0.0


def test_evaluation_follows_every_nth_epoch_and_the_last_step() -> None:
    setup = setup_of({"batch": 10, "steps": 10}, DIGITS, evaluate_every=2)  # 4 steps an epoch: after 8, and at the end
    trainer = Scripted(setup, longest=100)
    outcome = loop.train(setup, trainer)
    assert trainer.calls == [(0, 8), (8, 10)]
    curve = next(curve for curve in outcome.curves if curve.metric == "test_accuracy")
    assert curve.steps.tolist() == [8, 10]
    assert trainer.predictions == 2


def test_a_diverged_trial_is_not_measured_again() -> None:
    trainer = Scripted(setup := setup_of(layers=["start", 5, "end"], weights=["end"]), diverges=4)
    outcome = loop.train(setup, trainer)
    assert trainer.calls[-1] == (4, 5)
    assert (outcome.status, outcome.metrics["diverged_step"]) == ("diverged", 5)
    assert set(outcome.layers.step.tolist()) == {0}
    assert [kept.step for kept in outcome.snapshots] == [5]  # where it ended
    assert math.isnan(outcome.curves[0].values[-1])


def test_a_trial_without_steps_has_the_loss_of_its_first_batch() -> None:
    trainer = Scripted(setup := setup_of({"steps": 0}, layers=["start"]))
    outcome = loop.train(setup, trainer)
    assert trainer.calls == []
    assert outcome.metrics["initial_loss"] == 42.0
    assert set(outcome.layers.step.tolist()) == {0}


def test_ticks_report_the_step_and_the_latest_loss_and_may_stop_the_trial() -> None:
    ticks: list[tuple[int, float]] = []
    loop.train(setup := setup_of(), Scripted(setup), lambda *now: ticks.append(now))
    assert ticks == [(4, 3.0), (8, 7.0), (10, 9.0)]

    def stop(step: int, loss: float) -> None:
        raise Stopped

    trainer = Scripted(setup)
    with pytest.raises(Stopped):
        loop.train(setup, trainer, stop)
    assert trainer.calls == [(0, 4)]


def test_trials_trained_together_end_independently() -> None:
    setups = [setup_of(), setup_of()]
    short, long = Scripted(setups[0], diverges=2), Scripted(setups[1])
    diverged, done = loop.train_together(setups, [short, long], [None, None])
    assert (diverged.status, done.status) == ("diverged", "done")
    assert short.calls == [(0, 4)]
    assert long.calls == [(0, 4), (4, 8), (8, 10)]
    wild = [Scripted(each, diverges=0) for each in setups]
    loop.train_together(setups, wild, [None, None])
    assert [trainer.calls for trainer in wild] == [[(0, 4)], [(0, 4)]]


def test_the_time_of_a_stretch_is_divided_among_its_steps() -> None:
    outcome = loop.train(setup := setup_of(), Scripted(setup))
    assert outcome.metrics["seconds_per_epoch"] == pytest.approx(3.0 / 10 * setup.steps_per_epoch)


@pytest.mark.parametrize("name", BUILT_IN.names("engine"))
def test_no_engine_has_its_own_bookkeeping(name: str) -> None:
    """Measuring, evaluating and recording belong to the loop: no engine module imports them."""
    import inspect

    source = inspect.getsource(inspect.getmodule(BUILT_IN.get("engine", name)))  # type: ignore[arg-type]
    for word in ("Recorder", "evaluate(", "measure(", "add_snapshot"):
        assert word not in source, f"engines/{name}: {word}"

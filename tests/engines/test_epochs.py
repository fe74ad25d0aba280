"""What happens epoch by epoch: the best epoch, early stopping, a schedule that reacts. The same in every engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.engines import loop
from gradlab.engines.loop import State, Stretch, Trainer
from gradlab.errors import StudyError
from gradlab.parts import BUILT_IN
from gradlab.runs.worker import run_trial
from gradlab.spec.claims import At
from gradlab.spec.config import EarlyStopping
from gradlab.trials import Outcome, Setup, prepare
from gradlab.trials.recorder import BestSoFar, Stopper

BASE: dict[str, Any] = {
    "data": {"task": "mnist", "train": 40, "validation": 20, "test": 20},
    "model": {"depth": 2, "width": 6, "init": "he_normal"},
    "train": {
        "loss": "cross_entropy", "optimizer": "adam", "lr": 0.05, "batch": 10, "epochs": 6, "precision": "float64",
        "engine": "reference",
    },
}  # fmt: skip


def tree(train: dict[str, Any] | None = None, seeds: int = 1, **measure: Any) -> dict[str, Any]:
    base = {**BASE, "train": {**BASE["train"], **(train or {})}}
    return {"question": "When?", "base": base, "seeds": seeds, "measure": {"layers": [], **measure}}


def outcome(train: dict[str, Any] | None = None, **measure: Any) -> Outcome:
    found = run_trial(gradlab.plan(tree(train, **measure)).trials[0])
    assert found.outcome is not None, found.error
    return found.outcome


def curve(found: Outcome, metric: str) -> tuple[list[int], list[float]]:
    own = next(curve for curve in found.curves if curve.metric == metric)
    return own.steps.tolist(), own.values.tolist()


class Scripted(Trainer):
    """Losses by script, one per epoch of four steps; θ counts the steps; the rates that it is told are noted."""

    longest = 100

    def __init__(self, setup: Setup, losses: list[float]) -> None:
        self.setup, self.losses, self.done = setup, losses, 0
        self.rates: list[float] = []

    def advance(self, start: int, stop: int) -> Stretch:
        found = Stretch(seconds=1.0)
        for step in range(start, stop):
            self.rates.append(float(self.setup.rates[step]) * self.rate_factor)
            if not found.add(self.losses[step // self.setup.steps_per_epoch], 1, 10):
                break
            self.done += 1
        return found

    def state(self) -> State:
        theta = self.setup.theta + self.done
        return State(theta, self.setup.mlp.initial_running(self.setup.dtype), np.ones_like(theta))

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.zeros((len(x), 10), x.dtype)

    def first_loss(self) -> float:
        return 0.0


def scripted(losses: list[float], train: dict[str, Any], **measure: Any) -> tuple[Outcome, Scripted]:
    setup = prepare(gradlab.plan(tree({"epochs": len(losses), **train}, **measure)).trials[0])
    trainer = Scripted(setup, losses)
    return loop.train(setup, trainer), trainer


def test_the_first_best_value_counts_and_nan_never_does() -> None:
    best = BestSoFar("validation_accuracy")
    assert [best.update(step, value) for step, value in enumerate([math.nan, 0.5, 0.5, 0.7, 0.6])] == [
        False, True, False, True, False,
    ]  # fmt: skip
    assert best.step == 3


def test_training_ends_after_as_many_epochs_without_improvement_as_patience_says() -> None:
    stopper = Stopper(EarlyStopping(patience=2, min_delta=0.1))
    assert [stopper.update(epoch, loss) for epoch, loss in enumerate([1.0, 0.95, 0.8, 0.75, 0.71])] == [
        False, False, False, False, True,
    ]  # fmt: skip


def test_early_stopping_ends_the_trial_measures_its_end_and_keeps_its_parameters() -> None:
    rule = {"early_stopping": {"by": "train_loss", "patience": 2}}
    found, trainer = scripted([3, 2, 1, 1, 1, 0], rule, layers=["start", "end"], evaluate_every=4)
    assert trainer.done == 20
    assert found.status == "done"
    assert found.metrics["epochs_trained"] == 5
    assert set(found.layers.step.tolist()) == {0, 20}
    assert [kept.step for kept in found.snapshots] == [20]
    assert curve(found, "test_accuracy")[0] == [16, 20]  # after every fourth epoch, and at the end
    assert np.array_equal(found.theta, trainer.setup.theta + 20)


def test_a_trial_that_keeps_improving_is_trained_to_its_last_step() -> None:
    found, trainer = scripted([5, 4, 3, 2], {"early_stopping": {"by": "train_loss", "patience": 1}})
    assert (trainer.done, found.metrics["epochs_trained"]) == (16, 4)


def test_the_best_epoch_is_that_of_the_metric_and_its_parameters_are_kept() -> None:
    found, trainer = scripted([3, 1, 2, 1], {}, best="train_loss", weights=["best", "end"])
    assert found.metrics["best_epoch"] == 2
    assert found.metrics["best_train_loss"] == 1
    assert found.metrics["best_test_loss"] == pytest.approx(math.log(10))
    assert [kept.step for kept in found.snapshots] == [8, 16]
    assert np.array_equal(found.snapshots[0].theta, trainer.setup.theta + 8)


def test_a_diverged_trial_keeps_the_best_epoch_before_it() -> None:
    found, _ = scripted([3, 2, math.nan], {}, best="train_loss", weights=["best"])
    assert (found.status, found.metrics["best_epoch"], found.metrics["train_loss"]) == ("diverged", 2, None)
    assert [kept.step for kept in found.snapshots] == [8]


def test_the_metrics_at_the_best_epoch_are_those_of_the_curves() -> None:
    found = outcome(best="validation_accuracy")
    steps, values = curve(found, "validation_accuracy")
    place = int(np.argmax(values))
    assert found.metrics["best_epoch"] == steps[place] / 4
    assert found.metrics["best_validation_accuracy"] == values[place]
    for metric in ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "validation_loss"):
        assert found.metrics[f"best_{metric}"] == curve(found, metric)[1][place]
    assert found.metrics["test_accuracy"] == curve(found, "test_accuracy")[1][-1]
    assert "best_epoch" not in outcome().metrics


def test_only_evaluated_epochs_can_be_the_best() -> None:
    found = outcome(best="test_accuracy", evaluate_every=4)
    assert found.metrics["best_epoch"] in (4, 6)
    assert found.metrics["best_train_loss"] is not None


def test_a_plateau_lowers_the_rate_from_the_next_epoch_on() -> None:
    schedule = {"kind": "plateau", "by": "train_loss", "patience": 1, "gamma": 0.5, "threshold": 0.0}
    found, trainer = scripted([2, 1, 1, 1, 1, 1], {"schedule": schedule, "lr": 0.2, "warmup": 2})
    by_epoch = np.reshape(trainer.rates, (6, 4))
    np.testing.assert_allclose(by_epoch[0], [0.1, 0.2, 0.2, 0.2])
    np.testing.assert_allclose(by_epoch[1:, 0], [0.2, 0.2, 0.2, 0.1, 0.1])
    assert (by_epoch[1:] == by_epoch[1:, :1]).all()
    assert curve(found, "learning_rate")[1] == by_epoch[:, -1].tolist()


REACTING = {
    "early stopping": ({"early_stopping": {"patience": 1}, "epochs": 20}, {}),
    "by accuracy": ({"early_stopping": {"patience": 2, "by": "validation_accuracy"}, "epochs": 20}, {}),
    "plateau": ({"schedule": {"kind": "plateau", "patience": 0, "by": "validation_loss"}}, {}),
    "plateau of training": ({"schedule": {"kind": "plateau", "patience": 0, "by": "train_loss", "threshold": 0.5}}, {}),
    "best": ({}, {"best": "test_accuracy", "weights": ["best"]}),
    "full batches": ({"batch": "full", "early_stopping": {"patience": 1, "min_delta": 0.1}, "epochs": 30}, {}),
}


@pytest.mark.parametrize("case", REACTING)
@pytest.mark.parametrize("engine", ["torch", "fused"])
def test_every_engine_reacts_like_the_reference(engine: str, case: str) -> None:
    train, measure = REACTING[case]
    reference = outcome(train, layers=["start", "end"], **measure)
    ours = outcome({**train, "engine": engine}, layers=["start", "end"], **measure)
    for name, value in reference.metrics.items():
        if name != "seconds_per_epoch":
            assert ours.metrics[name] == (value if value is None else pytest.approx(value, rel=1e-7)), name
    assert ours.layers.step.tolist() == reference.layers.step.tolist()
    np.testing.assert_allclose(ours.layers.value, reference.layers.value, rtol=1e-5, atol=1e-9)
    assert [kept.step for kept in ours.snapshots] == [kept.step for kept in reference.snapshots]


@pytest.mark.parametrize("train", [REACTING["early stopping"][0], REACTING["plateau"][0]])
def test_training_does_not_depend_on_what_is_measured(train: dict[str, Any]) -> None:
    often, seldom = outcome(train, evaluate_every=1), outcome(train, evaluate_every=1000, best="train_loss")
    assert np.array_equal(often.theta, seldom.theta)


def test_something_did_happen_in_those_trials() -> None:
    assert outcome(REACTING["early stopping"][0]).metrics["epochs_trained"] < 20
    plain, reacting = outcome(), outcome(REACTING["plateau"][0])
    assert not np.array_equal(plain.theta, reacting.theta)


def test_tiny_networks_that_react_are_not_trained_side_by_side() -> None:
    engine = BUILT_IN.make("engine", "fused", {})
    plain = {"batch": "full", "epochs": 3, "engine": "fused"}
    sizes = [
        engine.group_size(gradlab.plan(tree({**plain, **more})).groups[0].config, BUILT_IN)
        for more in ({}, {"early_stopping": {}}, {"schedule": "plateau"})
    ]
    assert sizes[1:] == [1, 1]


WRONG = {
    "best of a regression": (
        {"data": {"task": "identity", "dim": 4, "samples": 8}, "model": {"depth": 2, "width": 4}},
        {"loss": "mse"},
        {"best": "train_accuracy"},
        r"measure\.best: the task 'identity' is a regression",
    ),
    "no validation samples": (
        {"data": {"task": "mnist", "train": 40, "validation": 0}},
        {"early_stopping": {}},
        {},
        r"train\.early_stopping\.by: the task 'mnist' has no validation samples",
    ),
    "no test samples": (
        {"data": {"task": "mnist", "train": 40, "validation": 20, "test": 0}},
        {"schedule": {"kind": "plateau", "by": "test_loss"}},
        {},
        r"train\.schedule\.by: the task 'mnist' has no test samples",
    ),
    "best weights of no best epoch": ({}, {}, {"weights": ["best"]}, r"measure\.weights: 'best' needs measure\.best"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_followed_is_refused(case: str) -> None:
    base, train, measure, message = WRONG[case]
    study = tree(train, **measure)
    study["base"] = {**study["base"], **base}
    with pytest.raises(StudyError, match=message):
        gradlab.plan(study)


def test_a_claim_about_the_best_epoch_needs_one() -> None:
    claims = [{"text": "It learns", "metric": "best_test_accuracy", "op": ">", "value": 0.1}]
    with pytest.raises(StudyError, match=r"'best_test_accuracy' needs measure\.best"):
        gradlab.plan({**tree(), "claims": claims})
    assert gradlab.plan({**tree(best="validation_loss"), "claims": claims})
    claims[0]["metric"] = "epochs_trained"
    with pytest.raises(StudyError, match=r"'epochs_trained' needs train\.early_stopping"):
        gradlab.plan({**tree(), "claims": claims})


def test_layers_at_the_end_are_those_of_each_trials_own_end() -> None:
    result = gradlab.run(
        {**tree({"early_stopping": {"patience": 1}, "epochs": 20}, seeds=2, best="validation_loss"),
         "measure": {"layers": ["start", "end"], "best": "validation_loss", "weights": ["best", "end"]},
         "headline": {"metric": "grad_l2", "at": {"layer": 1, "step": "end"}}}
    )  # fmt: skip
    trained = result.measured.values("epochs_trained", "all")
    assert all(epochs is not None and epochs < 20 for epochs in trained.values())
    found = result.measured.values("grad_l2", "all", At(step="end", layer=1))
    assert all(value is not None and value > 0 for value in found.values())
    best = result.weights("all", 0, "best")
    assert best.keys() == result.weights("all", 0).keys()
    assert result.report()

"""The reference engine: its records, its divergence, and what must not affect it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import gradlab
from gradlab.arithmetic import require_denormals
from gradlab.engines.reference import Reference
from gradlab.errors import EnvironmentFault
from gradlab.trials import Outcome, prepare


def outcome(tree: dict[str, Any], index: int = 0, **train: Any) -> Outcome:
    tree = {**tree, "base": {**tree["base"], "train": {**tree["base"]["train"], **train}}}
    return Reference().train(prepare(gradlab.plan(tree).trials[index]))


def mnist(**train: Any) -> dict[str, Any]:
    return {
        "question": "?",
        "base": {
            "data": {"task": "mnist", "train": 500, "validation": 100, "test": 200},
            "model": {"depth": 2, "width": 16},
            "train": {"loss": "cross_entropy", "optimizer": "adam", "lr": 3e-3, "batch": 64, "epochs": 4, **train},
        },
        "seeds": 1,
    }


def curves(found: Outcome) -> dict[str, Any]:
    return {curve.metric: curve for curve in found.curves}


def test_a_trial_replayed_in_torch_step_by_step_agrees(tree: dict[str, Any]) -> None:
    """The whole loop (batches, loss, backward, Adam, decay of the rate) written again with torch modules."""
    tree["base"]["train"] |= {"schedule": "cosine", "clip": 0.5}
    setup = prepare(gradlab.plan(tree).trials[1])  # residual, seed 0
    p = {n: torch.tensor(v.copy(), requires_grad=True) for n, v in setup.mlp.layout.named(setup.theta).items()}
    optimizer = torch.optim.Adam(p.values(), 0.01)
    losses = []
    for step, rows in setup.batches():
        x, y = (torch.tensor(a) for a in setup.dataset.gather(rows, np.float64))
        h = x
        for layer in range(1, 4):
            h = h + torch.relu(h @ p[f"layer{layer}.weight"] + p[f"layer{layer}.bias"])
        loss = torch.nn.functional.mse_loss(h, y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 0.5)
        optimizer.param_groups[0]["lr"] = 0.01 * (1 + np.cos(np.pi * step / 20)) / 2
        optimizer.step()
        losses.append(loss.item())
    found = Reference().train(setup)
    np.testing.assert_allclose(curves(found)["loss"].values, losses, rtol=1e-10)
    theirs = np.concatenate([value.detach().numpy().ravel() for value in p.values()])
    np.testing.assert_allclose(found.theta, theirs, rtol=1e-9, atol=1e-12)


def test_metrics_are_what_their_names_say(tree: dict[str, Any]) -> None:
    found = outcome(tree)
    loss = curves(found)["loss"]
    assert loss.steps.tolist() == list(range(1, 21))
    m = found.metrics
    assert m["initial_loss"] == loss.values[0]
    assert m["final_loss"] == pytest.approx(loss.values[-10:].mean())
    assert m["last_loss"] == loss.values[-1]
    assert m["parameters"] == 3 * 20
    assert m["flops"] == 2 * 8 * 20 * (3 * 3 * 16 - 16)
    assert m["train_loss"] == pytest.approx(loss.values[-4:].mean())  # 4 batches of 8 make an epoch
    assert m["seconds_per_epoch"] > 0
    for absent in ("test_loss", "test_accuracy", "train_accuracy", "collapsed", "steps_to_target", "diverged_step"):
        assert m[absent] is None


def test_classification_is_evaluated_every_epoch() -> None:
    found = outcome(mnist())
    for metric in ("train_accuracy", "validation_accuracy", "test_accuracy", "test_loss", "validation_loss"):
        assert curves(found)[metric].steps.tolist() == [8, 16, 24, 32]
    assert found.metrics["test_accuracy"] == curves(found)["test_accuracy"].values[-1] > 0.5
    assert found.metrics["collapsed"] == 0


def test_evaluation_can_be_rarer_but_the_last_epoch_is_always_evaluated() -> None:
    tree = mnist() | {"measure": {"evaluate_every": 3}}
    assert curves(outcome(tree))["test_accuracy"].steps.tolist() == [24, 32]


def test_a_collapsed_classifier_is_marked() -> None:
    tree = mnist(lr=1e-12)
    tree["base"]["model"]["init"] = "zeros"
    assert outcome(tree).metrics["collapsed"] == 1


def test_the_target_is_found_or_censored(tree: dict[str, Any]) -> None:
    values = curves(outcome(tree))["loss"].values
    means = np.convolve(values, np.ones(10) / 10, "valid")
    tree["measure"] = {"target": {"metric": "final_loss", "value": float(means[5] + 1e-9)}}
    m = outcome(tree).metrics
    assert m["steps_to_target"] == int(np.flatnonzero(means <= means[5] + 1e-9)[0]) + 10
    assert m["epochs_to_target"] == m["steps_to_target"] / 4
    tree["measure"] = {"target": {"metric": "final_loss", "value": -1}}
    assert outcome(tree).metrics["steps_to_target"] is None
    reached = outcome(mnist() | {"measure": {"target": {"metric": "test_accuracy", "value": 0.3}}}).metrics
    assert reached["steps_to_target"] in (8, 16, 24, 32)


@pytest.mark.parametrize("batch", [7, 32, "full", 1000])
def test_an_epoch_is_a_permutation_and_its_last_smaller_batch_is_kept(batch: Any, tree: dict[str, Any]) -> None:
    tree["base"]["train"] |= {"batch": batch, "epochs": 2, "steps": None}
    setup = prepare(gradlab.plan(tree).trials[0])
    rows = [rows for _, rows in setup.batches()]
    per_epoch = setup.steps_per_epoch
    assert len(rows) == 2 * per_epoch
    for epoch in (rows[:per_epoch], rows[per_epoch:]):
        assert sorted(np.concatenate(epoch)) == list(range(32))
    if batch == 7:
        assert [len(r) for r in rows[:per_epoch]] == [7, 7, 7, 7, 4]
        assert not np.array_equal(rows[0], rows[per_epoch])


def test_arms_share_data_order_and_probe_batch_and_seeds_do_not(tree: dict[str, Any]) -> None:
    plan = gradlab.plan(tree)
    plain, residual, other = (prepare(plan.trials[i]) for i in (0, 1, 2))
    assert (plain.trial.group, residual.trial.group, other.trial.seed) == ("plain", "residual", 1)
    assert np.array_equal(plain.dataset.inputs, residual.dataset.inputs)
    assert np.array_equal(plain.theta, residual.theta)
    assert np.array_equal(plain.probe_x, residual.probe_x)
    assert all(np.array_equal(plain.order(e), residual.order(e)) for e in range(3))
    assert not np.array_equal(plain.dataset.inputs, other.dataset.inputs)
    assert not np.array_equal(plain.order(0), other.order(0))


def test_the_split_is_shared_by_all_seeds_by_default() -> None:
    tree = mnist() | {"seeds": 2}
    a, b = (prepare(t).dataset.train for t in gradlab.plan(tree).trials)
    assert np.array_equal(a, b)
    tree["base"]["data"]["split"] = "per_trial"
    a, b = (prepare(t).dataset.train for t in gradlab.plan(tree).trials)
    assert not np.array_equal(a, b)


def test_divergence_is_an_outcome_with_its_step(tree: dict[str, Any]) -> None:
    tree["base"]["model"]["skip"] = "identity"
    found = outcome(tree, optimizer="sgd", lr=1e5, steps=200)
    assert found.status == "diverged"
    step = found.metrics["diverged_step"]
    loss = curves(found)["loss"].values
    assert 1 < step == len(loss) < 200
    assert np.isfinite(loss[:-1]).all()
    assert not np.isfinite(loss[-1])
    assert not np.isfinite(found.metrics["final_loss"])


def test_a_network_that_starts_infinite_diverges_at_step_one(tree: dict[str, Any]) -> None:
    tree["base"]["model"] |= {"init": {"kind": "uniform", "a": 1e30}, "skip": "identity"}
    found = outcome(tree, precision="float32")
    assert (found.status, found.metrics["diverged_step"]) == ("diverged", 1)


def test_one_diverged_trial_does_not_affect_the_others(tree: dict[str, Any]) -> None:
    tree["arms"]["hot"] = {"train.lr": 1e6, "train.optimizer": "sgd", "model.skip": "identity"}
    tree["base"]["train"]["steps"] = 60
    result = gradlab.run(tree)
    assert result.measured.counts() == {"done": 6, "failed": 0, "diverged": 2}
    assert result.measured.summary("final_loss", "plain").n == 2
    assert result.measured.summary("final_loss", "hot").nonfinite == 2
    assert "2 diverged" in result.report()


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_probes_change_no_bit_of_training(norm: str, tree: dict[str, Any]) -> None:
    """Promise 10."""
    tree["base"]["model"]["norm"] = norm
    tree["base"]["train"]["precision"] = "float32"
    tree["measure"] = {"layers": list(range(21))}
    measured = outcome(tree)
    tree["measure"] = {"layers": [], "probes": []}
    bare = outcome(tree)
    assert len(measured.layers.value) > 0 == len(bare.layers.value)
    assert np.array_equal(measured.theta, bare.theta)
    assert np.array_equal(curves(measured)["loss"].values, curves(bare)["loss"].values)


def test_evaluation_changes_no_bit_of_training() -> None:
    tree = mnist()
    tree["base"]["model"]["norm"] = "batch"
    often = outcome(tree)
    tree["base"]["data"] |= {"test": 0}
    tree["measure"] = {"evaluate_every": 4}
    seldom = outcome(tree)
    assert np.array_equal(often.theta, seldom.theta)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_trial_gives_the_same_bits_twice(precision: str, tree: dict[str, Any]) -> None:
    a, b = outcome(tree, precision=precision), outcome(tree, precision=precision)
    assert a.theta.dtype == precision
    assert a.theta.tobytes() == b.theta.tobytes()


def test_a_budget_of_no_steps_only_measures_the_start(tree: dict[str, Any]) -> None:
    tree["measure"] = {"layers": ["start"]}
    found = outcome(tree, steps=0)
    assert found.metrics["initial_loss"] > 0
    assert found.metrics["final_loss"] is None
    assert set(found.layers.step.tolist()) == {0}
    assert np.array_equal(found.theta, prepare(gradlab.plan(tree).trials[0]).theta)


def test_denormals_are_kept_in_this_thread_and_in_others() -> None:
    require_denormals()
    tiny = np.full((4, 4), 1e-30, np.float32)
    product = tiny @ np.full((4, 4), 1e-12, np.float32)
    assert (product > 0).all()
    assert (product < np.finfo(np.float32).tiny).all()
    problems: list[BaseException] = []

    def in_thread() -> None:
        try:
            require_denormals()
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert not problems


def test_a_thread_that_flushes_denormals_is_refused(tree: dict[str, Any]) -> None:
    setup = prepare(gradlab.plan(tree).trials[0])
    torch.set_flush_denormal(True)
    try:
        with pytest.raises(EnvironmentFault, match="flushes denormal numbers"):
            Reference().train(setup)
    finally:
        torch.set_flush_denormal(False)
    assert Reference().train(setup).status == "done"


def test_vanishing_values_of_the_plain_identity_net_are_denormal_and_not_zero() -> None:
    plan = gradlab.plan("identity", seeds=1, overrides={"model.depth": 64, "train.steps": 1})
    setup = prepare(plan.trials[0])
    found = Reference().train(replace(setup, moments={0: "start"}))
    rows = found.layers
    signal = [v for m, layer, v in zip(rows.measure, rows.layer, rows.value, strict=True) if m == "activation_std.pre"]
    assert any(0 < value < np.finfo(np.float32).tiny for value in signal)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw"])
def test_a_float32_trial_stays_float32(optimizer: str, tree: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from gradlab.parts import BUILT_IN

    part = BUILT_IN.get("optimizer", optimizer)
    original, seen = part.update, []

    def watched(self: Any, gradient: Any, state: Any, theta: Any, lr: Any) -> Any:
        delta, after = original(self, gradient, state, theta, lr)
        seen.append(delta.dtype)
        return delta, after

    monkeypatch.setattr(part, "update", watched)
    outcome(tree, optimizer=optimizer, precision="float32")
    assert set(seen) == {np.dtype("float32")}


def test_the_end_is_the_end_of_the_budget_not_the_last_measurement(tree: dict[str, Any]) -> None:
    tree["measure"] = {"layers": ["start"]}
    result = gradlab.run({**tree, "figures": None})
    assert "gradient_by_layer" not in result.charts
    assert "signal_by_layer" in result.charts


def test_wall_time_is_recorded_per_epoch(tree: dict[str, Any]) -> None:
    seconds = curves(outcome(tree))["epoch_seconds"]
    assert seconds.steps.tolist() == [4, 8, 12, 16, 20]
    assert (seconds.values > 0).all()

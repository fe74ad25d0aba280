"""The micro-world shows what is there: Jacobians against finite differences, the same bits, the right words."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.report.inside.recording import Recording, _end_to_end, diagnose, inspect_network
from gradlab.report.inside.views import _share_above, draw_view, make_views
from gradlab.running.inside import choose_pair, record_inside
from gradlab.trials.setup import Setup, prepare

SKIPS = ("none", "identity", "scaled", "rezero", "pre_activation", "add_then_activate")


def setup_of(tree: dict[str, Any], **model: Any) -> Setup:
    base = {**tree["base"], "model": {**tree["base"]["model"], "activation": "tanh", "depth": 5, **model}}
    made = prepare(gradlab.plan({**tree, "base": base, "arms": None}).trials[0])
    return replace(made, theta=np.random.default_rng(0).normal(0, 0.4, made.theta.shape))


def numeric(setup: Setup, x: Any) -> Any:
    """∂out/∂input by central differences."""
    p, h = setup.mlp.layout.windows(setup.theta), 1e-6
    columns = []
    for unit in range(x.shape[1]):
        up, down = x.copy(), x.copy()
        up[0, unit] += h
        down[0, unit] -= h
        out = [setup.mlp.forward(p, v, setup.mlp.initial_running(np.float64))[0][0] for v in (up, down)]
        columns.append((out[0] - out[1]) / (2 * h))
    return np.array(columns).T


@pytest.mark.parametrize("norm", ["none", "layer", "rms"])
@pytest.mark.parametrize("skip", SKIPS)
def test_the_end_to_end_jacobian_is_that_of_finite_differences(tree: dict[str, Any], skip: str, norm: str) -> None:
    setup = setup_of(tree, skip=skip, norm=norm)
    x = setup.probe_x[:1].astype(np.float64)
    p, running = setup.mlp.layout.windows(setup.theta), setup.mlp.initial_running(np.float64)
    np.testing.assert_allclose(_end_to_end(setup.mlp, p, x, running), numeric(setup, x), rtol=1e-6, atol=1e-8)


def test_without_the_identity_term_the_chain_is_the_product_of_the_branches(tree: dict[str, Any]) -> None:
    setup = setup_of(tree, skip="identity")
    seen = inspect_network(setup, setup.theta, 0)
    p = setup.mlp.layout.windows(setup.theta)
    x = setup.probe_x[:4].astype(np.float64)
    _, tape = setup.mlp.forward(p, x, setup.mlp.initial_running(np.float64))
    norms = []
    for sample in range(4):
        rows = np.eye(4)
        for number in range(5, 0, -1):
            record, layer = tape.records[number - 1], setup.mlp.layers[number - 1]
            rows = rows * layer.activation.slope(record.pre[sample], record.post[sample])
            if number > 1:
                rows = rows @ p.layers[number - 1].weight.T
        norms.append(np.linalg.norm(rows, 2))
    assert seen.branches is not None
    assert seen.highway is not None
    assert seen.branches[0] == pytest.approx(np.median(norms))
    assert seen.highway[0] > 5 * seen.branches[0]  # the highway


def test_a_plain_network_has_no_highway(tree: dict[str, Any]) -> None:
    seen = inspect_network(setup_of(tree, skip="none"), setup_of(tree, skip="none").theta, 0)
    np.testing.assert_allclose(seen.highway, seen.branches)
    assert seen.gains is not None
    assert seen.gains.shape == (5, 2)


def test_inspections_show_what_the_probes_measured(tree: dict[str, Any]) -> None:
    result = gradlab.run({**tree, "figures": []})
    recording = record_inside(result.measured, ("plain", "residual"))
    assert recording is None or recording.same_bits
    assert recording is not None
    for arm, inspections in zip(recording.arms, recording.inspections, strict=True):
        assert [one.step for one in inspections] == [0, 1, 2, 4, 8, 16, 20]
        for one in inspections:
            profile = result.measured.profile("delta_rms", arm, one.step).values[0]
            np.testing.assert_allclose(one.delta, profile, rtol=1e-5)
            grads = result.measured.profile("grad_rms", arm, one.step).values[0]
            np.testing.assert_allclose(one.gradient, grads, rtol=1e-5)
    assert recording.inspections[0][-1].update is not None


def test_a_recording_survives_json_and_draws_itself(tree: dict[str, Any]) -> None:
    tree["base"]["model"]["depth"] = 5
    result = gradlab.run({**tree, "figures": []})
    recording = record_inside(result.measured, ("plain", "residual"), seed=1)
    assert recording is not None
    again = Recording.from_json(json.loads(json.dumps(recording.to_json())))
    assert again.arms == recording.arms
    np.testing.assert_allclose(again.inspections[1][-1].signal, recording.inspections[1][-1].signal, rtol=1e-4)
    found = make_views(again)
    assert [view.name for view in found] == ["signal_flow", "gradient_flow", "gradient_highway", "one_input", "units"]
    for view in found:
        assert len(view.caption) > 80
        assert draw_view(view, again).axes


@pytest.mark.shipped
def test_the_diagnosis_of_the_identity_networks_names_state_cause_and_cure() -> None:
    plan = gradlab.plan("identity", seeds=1, overrides=["seed=0"])
    result = gradlab.run(plan)
    recording = record_inside(result.measured, ("plain", "residual"))
    assert recording is not None
    configs = {planned.group.name: planned.group.config for planned in plan.groups}
    plain, residual = diagnose(recording, (configs["plain"], configs["residual"]))
    assert plain.code == "vanishing_gradients"
    assert plain.numbers["per_layer"] == pytest.approx(1 / 4.6, rel=0.02)
    assert "1/√depth" in plain.words
    assert residual.code == "healthy"
    unscaled = gradlab.run("identity-unscaled", seeds=1)
    recording = record_inside(unscaled.measured, ("plain", "residual"))
    assert recording is not None
    groups = {planned.group.name: planned.group.config for planned in unscaled.measured.plan.groups}
    found = diagnose(recording, (groups["plain"], groups["residual"]))
    assert [fact.code for fact in found] == ["healthy", "exploding_signal"]


def test_shallow_studies_have_no_micro_world() -> None:
    assert choose_pair(gradlab.plan("scaling-init")) is None
    assert choose_pair(gradlab.plan("depth")) == ("depth=30, skip=none", "depth=30, skip=add_then_activate")


def test_a_narrow_last_layer_is_counted_by_its_own_units() -> None:
    row = np.array([0.5, 0.2, 0.0, 0.3, np.nan, np.nan, np.nan, np.nan])
    assert _share_above(row, 1e-3) == 0.75
    assert _share_above(np.array([np.nan, 1.0]), 1e-3) == 0.5  # a network that diverged: NaN is no signal
    assert _share_above(np.full(3, np.nan), 1e-3) == 0


@pytest.mark.shipped
def test_every_view_has_its_data_and_its_pdf(tree: dict[str, Any], tmp_path: Path) -> None:
    tree["base"]["model"]["depth"] = 5
    result = gradlab.run({**tree, "seeds": 1, "figures": []}, out=tmp_path / "run", executor="inline")
    assert result.recording is not None
    for view in make_views(result.recording):
        for kind in ("png", "svg", "pdf", "csv"):
            assert (tmp_path / "run/figures" / f"{view.name}.{kind}").stat().st_size > 50
    with open(tmp_path / "run/figures/one_input.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    last = result.recording.inspections[0][-1]
    assert len({(row["arm"], row["step"]) for row in rows}) == sum(map(len, result.recording.inspections))
    found = [float(r["value"]) for r in rows if r["arm"] == result.recording.arms[0] and r["step"] == str(last.step)]
    np.testing.assert_allclose(found, last.journey[~np.isnan(last.journey)].ravel(), atol=1e-6)

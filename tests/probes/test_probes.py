"""Each measure against the number computed by hand, with torch's autograd as the source of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradlab
from gradlab.engines.reference import Reference
from gradlab.trials import prepare

DEPTH = 3


@pytest.fixture
def measured(tree: dict[str, Any]) -> tuple[Any, dict[tuple[int, int, str], float]]:
    tree["measure"] = {"layers": ["start", 1, "end"], "probe": {"batch": "fresh", "size": 16}}
    setup = prepare(gradlab.plan(tree).trials[1])  # residual
    table = Reference().train(setup).layers
    keys = zip(table.step.tolist(), table.layer.tolist(), table.measure, strict=True)
    return setup, dict(zip(keys, table.value.tolist(), strict=True))


def test_gradients_signals_and_activations_at_the_start_are_those_of_autograd(measured: Any) -> None:
    setup, values = measured
    p = {n: torch.tensor(v.copy(), requires_grad=True) for n, v in setup.mlp.layout.named(setup.theta).items()}
    h, seen = torch.tensor(setup.probe_x), []
    for layer in range(1, DEPTH + 1):
        z = h @ p[f"layer{layer}.weight"] + p[f"layer{layer}.bias"]
        z.retain_grad()
        post = torch.relu(z)
        h = h + post
        seen.append((z, post, h))
    torch.nn.functional.mse_loss(h, torch.tensor(setup.probe_y)).backward()
    for layer, (z, post, stream) in enumerate(seen, 1):
        weight, bias = p[f"layer{layer}.weight"].grad, p[f"layer{layer}.bias"].grad
        expected = {
            "grad_l2": weight.norm(),
            "grad_mean_abs": weight.abs().mean(),
            "grad_rms": weight.square().mean().sqrt(),
            "bias_grad_l2": bias.norm(),
            "delta_l2": z.grad.norm(),
            "delta_rms": z.grad.square().mean().sqrt(),
            "activation_mean.pre": z.mean(),
            "activation_std.pre": z.std(correction=0),
            "activation_mean.post": post.mean(),
            "activation_std.post": post.std(correction=0),
            "activation_mean.stream": stream.mean(),
            "activation_std.stream": stream.std(correction=0),
            "dead_share": (z <= 0).all(0).double().mean(),
        }
        for measure, value in expected.items():
            assert values[0, layer, measure] == pytest.approx(value.item(), rel=1e-10, abs=1e-15)


def test_the_update_ratio_exists_after_a_step_and_not_before(measured: Any) -> None:
    setup, values = measured
    first = prepare(setup.trial)
    theta = first.theta.copy()
    one = Reference().train(_one_step(first))
    for layer in (1, 2, 3):
        name = f"layer{layer}.weight"
        before, after = (first.mlp.layout.named(t)[name] for t in (theta, one.theta))
        expected = np.linalg.norm(after - before) / np.linalg.norm(after)
        assert values[1, layer, "update_ratio"] == pytest.approx(expected, rel=1e-9)
        assert (0, layer, "update_ratio") not in values
        assert (20, layer, "update_ratio") in values


def _one_step(setup: Any) -> Any:
    from dataclasses import replace

    return replace(setup, steps=1, moments={})


def test_norms_of_denormal_gradients_do_not_underflow() -> None:
    from gradlab.probes import l2

    assert l2(np.full((10, 10), 1e-40, np.float32)) == pytest.approx(1e-39, rel=1e-4)


def test_dead_units_are_counted() -> None:
    from gradlab.parts import BUILT_IN
    from gradlab.probes import LayerView

    slope = np.array([[0, 1, 0, 0], [0, 0, 0, 1.0]])
    nothing = np.zeros((2, 4))
    view = LayerView(1, np.ones((3, 4)), None, None, None, nothing, nothing, None, slope, None)
    assert BUILT_IN.make("probe", "dead_units", {}).measure(view) == {"dead_share": 0.5}


def test_measures_are_taken_at_the_declared_moments(tree: dict[str, Any]) -> None:
    for layers, steps in ((["log"], [1, 2, 4, 8, 16]), (["start", "end"], [0, 20]), ([5, 7], [5, 7]), ([], [])):
        tree["measure"] = {"layers": layers}
        found = Reference().train(prepare(gradlab.plan(tree).trials[0])).layers
        assert np.unique(found.step).tolist() == steps


def test_only_the_chosen_probes_are_taken(tree: dict[str, Any]) -> None:
    tree["measure"] = {"layers": ["end"], "probes": ["dead_units", "bias_gradient"]}
    found = Reference().train(prepare(gradlab.plan(tree).trials[0])).layers
    assert set(found.measure) == {"dead_share", "bias_grad_l2"}

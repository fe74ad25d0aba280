"""Promise 1: gradients of every block × activation × norm × loss, against central differences and torch autograd."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch_oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from pairwise import pairwise

from gradlab.network.mlp import MLP
from gradlab.parts import BUILT_IN
from gradlab.spec.config import Model
from gradlab.testing.base import TOLERANCE, analytic_gradient, away_from_kinks, gradient_error, worst_error

SKIPS = BUILT_IN.names("skip")
ACTIVATIONS = BUILT_IN.names("activation")
NORMS = BUILT_IN.names("norm")
LOSSES = ["cross_entropy", "mse"]
OTHER_LOSSES = [name for name in BUILT_IN.names("loss") if name not in (*LOSSES, "binary_cross_entropy")]
INPUTS, WIDTH, OUTPUTS, SAMPLES = 4, 5, 3, 7


def fields(skip: str, activation: str, norm: str, **more: Any) -> dict[str, Any]:
    plain = {"stem": "linear", "head": "linear", "layers_per_block": 1, "last_activation": True, "bias": True}
    sizes = {"depth": 4} if "widths" in more else {"depth": 4, "width": WIDTH}
    return {**plain, **sizes, "skip": skip, "activation": activation, "norm": norm, **more}


def network(model: dict[str, Any]) -> MLP:
    inputs = INPUTS if model["stem"] == "linear" else WIDTH
    outputs = OUTPUTS if model["head"] == "linear" else model.get("widths", [WIDTH])[-1]
    return MLP.of(Model.model_validate(model), inputs, outputs, BUILT_IN)


def draw(mlp: MLP, loss: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first of `draws`."""
    return next(draws(mlp, loss))


def draws(mlp: MLP, loss: str) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Random parameters (a ReZero α is not 0), inputs and targets, away from kinks."""
    inputs, outputs = mlp.layers[0].fan_in, mlp.layers[-1].fan_out
    for seed in range(3000):
        rng = np.random.default_rng(seed)
        theta = 0.7 * rng.standard_normal(mlp.layout.size)
        for layer in mlp.layout.windows(theta).layers:
            if "gain" in layer.norm:
                layer.norm["gain"][:] = 1 + 0.4 * layer.norm["gain"]
        x = rng.standard_normal((SAMPLES, inputs))
        of_classes = BUILT_IN.get("loss", loss).targets == "classes"
        y = rng.integers(max(outputs, 2), size=SAMPLES) if of_classes else rng.standard_normal((SAMPLES, outputs))
        if away_from_kinks(mlp, theta, x) and well_conditioned(mlp, theta, x):
            yield theta, x, y


def well_conditioned(mlp: MLP, theta: np.ndarray, x: np.ndarray) -> bool:
    """No norm divides by almost nothing, which would amplify rounding in both implementations."""
    _, tape = mlp.forward(mlp.layout.windows(theta), x, mlp.initial_running(float))
    seen = zip(mlp.layers, tape.records, strict=True)
    divided = [record.cache[1] for layer, record in seen if layer.norm.name in ("layer", "rms", "batch")]
    return all(inverse.max() < 10 for inverse in divided)


def autograd(mlp: MLP, model: dict[str, Any], loss: str, theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    p = {name: torch.tensor(value, requires_grad=True) for name, value in mlp.layout.named(theta).items()}
    output = torch_oracle.forward(model, p, torch.tensor(x), mlp.constants.get("alpha", 1.0))
    torch_oracle.loss(loss, output, torch.tensor(y)).backward()
    gradient = np.zeros_like(theta)
    for name, window in mlp.layout.named(gradient).items():
        if p[name].grad is not None:
            window[...] = p[name].grad.numpy()
    return gradient


OVERFLOWS = ("glu", "square", "none")
"""A polynomial of degree 81 after four layers."""
EVERYTHING = [fields(*each) for each in itertools.product(SKIPS, ACTIVATIONS, NORMS) if each != OVERFLOWS]
SHAPES = [
    fields(skip, "gelu", norm, **shape)
    for skip in SKIPS
    for norm in ("none", "layer", "batch")
    for shape in (
        {"stem": "none", "head": "none"},
        {"layers_per_block": 3},
        {"depth": 1},
        {"last_activation": False},
        {"bias": False},
        {"stem": "none", "layers_per_block": 2, "last_activation": False},
        {"stem_activation": False},
        {"stem_norm": False, "head_activation": "tanh"},
        {"stem_activation": False, "stem_norm": False, "depth": 1, "head_activation": "gelu_tanh"},
        {"widths": [6, 6, 4, 5]},
        {"widths": [6, 3, 4, 5, 4], "layers_per_block": 2, "depth": 5, "stem_activation": False},
        {"widths": [3, 5, 5, 4], "stem": "none", "head": "none", "layers_per_block": 2},
        {"widths": [6, 2, 6, 3, 6], "layers_per_block": 2, "depth": 5},
    )
]


def named(model: dict[str, Any]) -> str:
    return "-".join(f"{value}" for key, value in model.items() if key != "width")


CASES = [(model, loss) for loss in LOSSES for model in EVERYTHING]
CASES += [(model, "mse") for model in SHAPES]  # a loss sees the output alone: it need not meet every shape
CASES += [(model, loss) for loss in OTHER_LOSSES for model in SHAPES[:6]]


def levels(case: tuple[dict[str, Any], str]) -> list[str]:
    """What a case combines: skip, activation, norm, loss and shape."""
    model, loss = case
    parts = {key: model[key] for key in ("skip", "activation", "norm")}
    shape = {key: value for key, value in model.items() if key not in parts}
    return [*parts.values(), loss, str(shape)]


@pytest.mark.parametrize(("model", "loss"), pairwise(CASES, levels, lambda case: f"{named(case[0])}-{case[1]}", "slow"))
def test_gradient_agrees_with_central_differences_and_with_autograd(model: dict[str, Any], loss: str) -> None:
    """At one of four points: a wrong formula is wrong at all of them, an unlucky point only amplifies rounding."""
    mlp = network(model)
    part = BUILT_IN.make("loss", loss, {})
    # biases in front of a batch norm have no gradient in exact arithmetic, only rounding noise: a higher floor
    floor = 0.1 if model["norm"] == "batch" else 1e-2
    found = []
    for theta, x, y in itertools.islice(draws(mlp, loss), 4):
        ours = analytic_gradient(mlp, part, theta, x, y)
        single = [a.astype(np.float32) if a.dtype == np.float64 else a for a in (theta, x, y)]
        ours32 = analytic_gradient(mlp, part, *single)
        assert ours32.dtype == np.float32
        theirs32 = autograd(mlp, model, loss, *single).astype(float)
        errors = (
            gradient_error(mlp, part, theta, x, y) / TOLERANCE,
            worst_error(mlp, ours, autograd(mlp, model, loss, theta, x, y)) / 1e-12,
            worst_error(mlp, ours32.astype(float), theirs32, floor) / 1e-5,
        )
        if max(errors) <= 1:
            return
        found.append(errors)
    raise AssertionError(f"central differences, float64 and float32 autograd, over what is allowed: {found}")


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    """Any network: widths that change or not, blocks of one to three layers, with and without its ends."""
    per, stem = draw(st.integers(1, 3)), draw(st.booleans())
    depth = draw(st.integers(1, 3)) * per + stem
    norm = draw(st.sampled_from(["none", "layer", "rms"]))
    # a norm of one or two units gives ±1 whatever goes in: its gradient is a sum of large numbers that cancel
    units = st.lists(st.integers(1 if norm == "none" else 3, 4), min_size=depth, max_size=depth)
    ends = {"stem_activation": draw(st.booleans()), "stem_norm": draw(st.booleans())} if stem else {}
    if head := draw(st.booleans()):
        ends |= {"head_activation": draw(st.sampled_from(ACTIVATIONS))}
    shape = {"stem": "linear" if stem else "none", "head": "linear" if head else "none", "widths": draw(units)}
    shape |= {
        "layers_per_block": per,
        "depth": depth,
        "last_activation": draw(st.booleans()),
        "bias": draw(st.booleans()),
    }
    return fields(draw(st.sampled_from(SKIPS)), draw(st.sampled_from(ACTIVATIONS)), norm, **shape, **ends)


@settings(max_examples=150, deadline=None)
@given(models(), st.integers(0, 10**6))
def test_any_network_agrees_with_autograd(model: dict[str, Any], seed: int) -> None:
    mlp = network(model)
    rng = np.random.default_rng(seed)
    theta, x = rng.standard_normal(mlp.layout.size), rng.standard_normal((SAMPLES, mlp.layers[0].fan_in))
    y = rng.standard_normal((SAMPLES, mlp.layers[-1].fan_out))
    ours = analytic_gradient(mlp, BUILT_IN.make("loss", "mse", {}), theta, x, y)
    scale = 1e-6 if model["norm"] != "none" else 1e-11
    theirs = autograd(mlp, model, "mse", theta, x, y)
    assert np.linalg.norm(ours - theirs) <= scale * max(np.linalg.norm(theirs), 1)


def test_outputs_agree_with_torch_in_float64() -> None:
    for model in EVERYTHING:
        mlp = network(model)
        theta, x, _ = draw(mlp, "mse")
        ours = mlp.forward(mlp.layout.windows(theta), x, mlp.initial_running(float))[0]
        p = {name: torch.tensor(value) for name, value in mlp.layout.named(theta).items()}
        theirs = torch_oracle.forward(model, p, torch.tensor(x), mlp.constants.get("alpha", 1.0)).numpy()
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_a_network_of_zeros_has_finite_gradients_and_agrees_with_autograd() -> None:
    for norm in NORMS:
        model = fields("rezero", "relu", norm)
        mlp = network(model)
        theta, x, y = np.zeros(mlp.layout.size), np.ones((SAMPLES, INPUTS)), np.ones((SAMPLES, OUTPUTS))
        ours = analytic_gradient(mlp, BUILT_IN.make("loss", "mse", {}), theta, x, y)
        np.testing.assert_allclose(ours, autograd(mlp, model, "mse", theta, x, y), atol=1e-15)


def test_delta_on_the_tape_is_the_gradient_of_the_linear_output() -> None:
    model = fields("add_then_activate", "tanh", "layer")
    mlp = network(model)
    theta, x, y = draw(mlp, "mse")
    gradient = np.zeros_like(theta)
    p = mlp.layout.windows(theta)
    output, tape = mlp.forward(p, x, mlp.initial_running(float))
    mlp.backward(p, tape, 2 * (output - y) / output.size, mlp.layout.windows(gradient))
    for layer, record in zip(mlp.layout.windows(gradient).layers, tape.records, strict=True):
        assert record.delta is not None
        np.testing.assert_allclose(record.x.T @ record.delta, layer.weight, atol=1e-15)
        assert layer.bias is not None
        np.testing.assert_allclose(record.delta.sum(0), layer.bias, atol=1e-15)

"""Optimizers against torch.optim over 50 steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradlab.optim.optimizers import clip_gradient
from gradlab.parts import BUILT_IN

CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("sgd", {}, lambda p, lr: torch.optim.SGD(p, lr)),
    ("sgd", {"weight_decay": 0.1}, lambda p, lr: torch.optim.SGD(p, lr, weight_decay=0.1)),
    ("momentum", {}, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)),
    ("momentum", {"weight_decay": 0.1}, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, weight_decay=0.1)),
    ("nesterov", {}, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True)),
    ("nesterov", {"weight_decay": 0.1, "momentum": 0.5},
     lambda p, lr: torch.optim.SGD(p, lr, momentum=0.5, nesterov=True, weight_decay=0.1)),
    ("rmsprop", {}, lambda p, lr: torch.optim.RMSprop(p, lr)),
    ("rmsprop", {"alpha": 0.9, "weight_decay": 0.1}, lambda p, lr: torch.optim.RMSprop(p, lr, 0.9, weight_decay=0.1)),
    ("adam", {}, lambda p, lr: torch.optim.Adam(p, lr)),
    ("adam", {"weight_decay": 0.1}, lambda p, lr: torch.optim.Adam(p, lr, weight_decay=0.1)),
    ("adam", {"beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3}, lambda p, lr: torch.optim.Adam(p, lr, (0.5, 0.9), 1e-3)),
    ("amsgrad", {}, lambda p, lr: torch.optim.Adam(p, lr, amsgrad=True)),
    ("amsgrad", {"weight_decay": 0.1}, lambda p, lr: torch.optim.Adam(p, lr, amsgrad=True, weight_decay=0.1)),
    ("nadam", {}, lambda p, lr: torch.optim.NAdam(p, lr)),
    ("nadam", {"weight_decay": 0.1, "momentum_decay": 0.1},
     lambda p, lr: torch.optim.NAdam(p, lr, weight_decay=0.1, momentum_decay=0.1)),
    ("adamax", {}, lambda p, lr: torch.optim.Adamax(p, lr)),
    ("adamax", {"weight_decay": 0.1, "beta2": 0.9},
     lambda p, lr: torch.optim.Adamax(p, lr, (0.9, 0.9), weight_decay=0.1)),
    ("adagrad", {}, lambda p, lr: torch.optim.Adagrad(p, lr)),
    ("adagrad", {"weight_decay": 0.1, "start": 0.5},
     lambda p, lr: torch.optim.Adagrad(p, lr, weight_decay=0.1, initial_accumulator_value=0.5)),
    ("adamw", {}, lambda p, lr: torch.optim.AdamW(p, lr)),
    ("adamw", {"weight_decay": 0.2}, lambda p, lr: torch.optim.AdamW(p, lr, weight_decay=0.2)),
]  # fmt: skip


def test_every_optimizer_is_compared() -> None:
    assert {name for name, _, _ in CASES} | {"lion", "muon"} == set(BUILT_IN.names("optimizer"))


def test_lion_moves_every_entry_by_the_rate_along_the_interpolated_sign() -> None:
    lion = BUILT_IN.make("optimizer", "lion", {"weight_decay": 0.5})
    theta, rng = np.ones(6), np.random.default_rng(0)
    g1, g2 = rng.standard_normal((2, 6))
    _, state = lion.update(g1, lion.init(theta), theta, 0.1)
    delta, _ = lion.update(g2, state, theta, 0.1)
    np.testing.assert_allclose(delta, -0.1 * (np.sign(0.9 * 0.01 * g1 + 0.1 * g2) + 0.5))


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_muon_takes_torchs_steps_as_far_as_torchs_bfloat16_goes(shape: tuple[int, int]) -> None:
    muon = BUILT_IN.make("optimizer", "muon", {"weight_decay": 0.1})
    rng = np.random.default_rng(0)
    theta = rng.standard_normal(shape)
    theirs = torch.tensor(theta.T.copy(), requires_grad=True)
    optimizer, state = torch.optim.Muon([theirs], 0.02, weight_decay=0.1, momentum=0.95), muon.init(theta)
    for _ in range(3):
        gradient = rng.standard_normal(shape)
        delta, state = muon.update(gradient, state, theta, 0.02)
        theta = theta + delta
        theirs.grad = torch.tensor(gradient.T.copy())
        optimizer.step()
    assert np.abs(theta - theirs.detach().numpy().T).max() < 0.02 * 3 * 0.05


def test_muon_makes_singular_values_about_1() -> None:
    from gradlab.optim.optimizers import orthogonalized

    for shape in ((30, 20), (20, 30)):
        values = np.linalg.svd(orthogonalized(np.random.default_rng(0).standard_normal(shape), 5), compute_uv=False)
        assert values.min() > 0.5
        assert values.max() < 1.3


@pytest.mark.parametrize(("name", "parameters", "make"), CASES, ids=[f"{n}-{p}" for n, p, _ in CASES])
def test_fifty_steps_agree_with_torch(name: str, parameters: dict[str, Any], make: Any) -> None:
    ours = BUILT_IN.make("optimizer", name, parameters)
    rng = np.random.default_rng(0)
    theta = rng.standard_normal(12)
    matrix = rng.standard_normal((12, 12))
    theirs = torch.tensor(theta, requires_grad=True)
    optimizer = make([theirs], 0.01)
    state = ours.init(theta)
    for step in range(50):
        lr = 0.01 * (1 + step % 3)  # the rate may change between steps
        gradient = matrix @ theta
        delta, state = ours.update(gradient, state, theta, lr)
        for group in optimizer.param_groups:
            group["lr"] = lr
        theirs.grad = torch.tensor(matrix) @ theirs.detach()
        optimizer.step()
        theta = theta + delta
        exact = 1e-7 if name == "nadam" else 1e-10  # torch keeps the product of NAdam's momenta in float32
        np.testing.assert_allclose(theta, theirs.detach().numpy(), rtol=exact, atol=1e-9 if name == "nadam" else 0)


@pytest.mark.parametrize("largest", [0.5, 5.0, 1e6])
def test_clipping_agrees_with_torch(largest: float) -> None:
    gradient = np.random.default_rng(0).standard_normal(20)
    theirs = torch.zeros(20, dtype=torch.float64, requires_grad=True)
    theirs.grad = torch.tensor(gradient)
    torch.nn.utils.clip_grad_norm_([theirs], largest)
    np.testing.assert_allclose(clip_gradient(gradient, largest), theirs.grad.numpy(), rtol=1e-12)


def test_without_clipping_the_gradient_is_returned_unchanged() -> None:
    gradient = np.array([3.0, 4.0])
    assert clip_gradient(gradient, None) is gradient


def test_clipping_a_gradient_that_is_not_finite_does_not_hide_it() -> None:
    assert np.isnan(clip_gradient(np.array([np.nan, 1.0]), 1.0)).any()

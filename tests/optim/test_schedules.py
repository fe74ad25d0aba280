"""Schedules against their closed forms, and against torch's schedulers where those exist."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlab.optim.schedules import Horizon, learning_rates
from gradlab.parts import BUILT_IN

STEPS, PER_EPOCH, LR = 60, 4, 0.2


def rates(name: str, warmup: int = 0, steps: int = STEPS, **parameters: Any) -> np.ndarray:
    schedule = BUILT_IN.make("schedule", name, parameters)
    return learning_rates(schedule, LR, warmup, Horizon(steps, PER_EPOCH))


def torch_rates(make: Any, steps: int = STEPS, every: int = 1) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], LR)
    scheduler, found = make(optimizer), []
    for step in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if (step + 1) % every == 0 and step + 1 < steps:
            scheduler.step()
    return found


def test_schedules_match_their_closed_forms() -> None:
    t = np.arange(STEPS)
    np.testing.assert_allclose(rates("fixed"), LR)
    np.testing.assert_allclose(rates("step", every=3, gamma=0.5), LR * 0.5 ** (t // PER_EPOCH // 3))
    np.testing.assert_allclose(rates("exponential", gamma=0.9), LR * 0.9 ** (t // PER_EPOCH))
    np.testing.assert_allclose(rates("exponential", gamma=0.9, per="step"), LR * 0.9**t)
    np.testing.assert_allclose(rates("step", every=7, gamma=0.5, per="step"), LR * 0.5 ** (t // 7))
    np.testing.assert_allclose(rates("inverse_time", decay=0.1), LR / (1 + 0.1 * t))
    np.testing.assert_allclose(rates("inverse_time", decay=0.1, per="epoch"), LR / (1 + 0.1 * (t // PER_EPOCH)))
    np.testing.assert_allclose(rates("inverse_sqrt", scale=5), LR / np.sqrt(1 + t / 5))
    np.testing.assert_allclose(
        rates("piecewise", at=[2, 5], factors=[0.5, 0.1]), LR * np.where(t < 8, 1, np.where(t < 20, 0.5, 0.1))
    )
    np.testing.assert_allclose(rates("cosine"), LR * (1 + np.cos(math.pi * t / STEPS)) / 2)
    np.testing.assert_allclose(rates("cosine", floor=0.1)[0], LR)
    np.testing.assert_allclose(rates("linear"), LR * (1 - t / STEPS))
    assert rates("one_cycle").max() == pytest.approx(LR)
    assert rates("one_cycle")[0] == pytest.approx(LR / 25)
    assert rates("one_cycle")[-1] == pytest.approx(LR / 25e4)


@pytest.mark.parametrize("multiply", [1, 2])
def test_warm_restarts_are_torchs(multiply: int) -> None:
    def make(optimizer: Any) -> Any:
        return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 12, multiply, eta_min=0.1 * LR)

    ours = rates("cosine_restarts", period=12, multiply=multiply, floor=0.1, per="step")
    np.testing.assert_allclose(ours, torch_rates(make), rtol=1e-9)
    in_epochs = rates("cosine_restarts", period=3, multiply=multiply, floor=0.1)
    np.testing.assert_allclose(in_epochs, ours, rtol=1e-9)


def test_inverse_sqrt_behind_a_warm_up_is_the_transformers_schedule() -> None:
    t = np.arange(1, STEPS + 1)
    np.testing.assert_allclose(rates("inverse_sqrt", warmup=10, scale=10)[9:-1], LR * np.sqrt(10 / t[9:-1]), rtol=0.06)


def test_piecewise_needs_a_factor_for_every_rising_moment() -> None:
    for parameters in ({"at": [1, 2], "factors": [0.5]}, {"at": [3, 2], "factors": [0.5, 0.1]}):
        with pytest.raises(ValueError, match="rising"):
            rates("piecewise", **parameters)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.floats(0, 2), st.just(math.nan), st.just(math.inf)), min_size=1, max_size=40),
    st.fixed_dictionaries(
        {
            "patience": st.integers(0, 4),
            "gamma": st.floats(0.1, 0.9),
            "threshold": st.sampled_from([0.0, 1e-4, 0.1]),
            "threshold_mode": st.sampled_from(["rel", "abs"]),
            "cooldown": st.integers(0, 3),
            "floor": st.sampled_from([0.0, 0.05]),
            "epsilon": st.sampled_from([0.0, 1e-8, 1e-2]),
        }
    ),
    st.sampled_from(["validation_loss", "test_accuracy"]),
)
def test_reduce_on_plateau_agrees_with_torch(values: list[float], own: dict[str, Any], by: str) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], LR)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, "max" if by.endswith("accuracy") else "min", factor=own["gamma"], patience=own["patience"],
        threshold=own["threshold"], threshold_mode=own["threshold_mode"], cooldown=own["cooldown"],
        min_lr=own["floor"] * LR, eps=own["epsilon"],
    )  # fmt: skip
    reaction = BUILT_IN.make("schedule", "plateau", {**own, "by": by}).reaction(LR)
    for value in values:
        optimizer.step()
        scheduler.step(value)
        assert LR * reaction.update(value) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)


def test_schedules_agree_with_torch() -> None:
    schedulers = torch.optim.lr_scheduler
    step = torch_rates(lambda o: schedulers.StepLR(o, 3, 0.5), every=PER_EPOCH)
    np.testing.assert_allclose(rates("step", every=3, gamma=0.5), step, rtol=1e-12)
    exponential = torch_rates(lambda o: schedulers.ExponentialLR(o, 0.9), every=PER_EPOCH)
    np.testing.assert_allclose(rates("exponential", gamma=0.9), exponential, rtol=1e-12)
    np.testing.assert_allclose(
        rates("cosine"), torch_rates(lambda o: schedulers.CosineAnnealingLR(o, STEPS)), rtol=1e-9
    )
    linear = torch_rates(lambda o: schedulers.LinearLR(o, 1.0, 0.0, STEPS))
    np.testing.assert_allclose(rates("linear"), linear, rtol=1e-9, atol=1e-15)
    cycle = torch_rates(lambda o: schedulers.OneCycleLR(o, LR, total_steps=STEPS, cycle_momentum=False))
    np.testing.assert_allclose(rates("one_cycle"), cycle, rtol=1e-9)


@pytest.mark.parametrize("name", BUILT_IN.names("schedule"))
def test_warmup_rises_linearly_and_the_schedule_starts_after_it(name: str) -> None:
    warm = rates(name, warmup=10)
    np.testing.assert_allclose(warm[:10], LR * np.arange(1, 11) / 10)
    np.testing.assert_allclose(warm[10:], rates(name, steps=STEPS - 10))


def test_a_warmup_longer_than_the_budget_never_reaches_the_full_rate() -> None:
    np.testing.assert_allclose(rates("cosine", warmup=100, steps=5), LR * np.arange(1, 6) / 100)


@pytest.mark.parametrize("name", BUILT_IN.names("schedule"))
def test_a_budget_without_steps_has_no_rates(name: str) -> None:
    assert len(rates(name, steps=0)) == 0

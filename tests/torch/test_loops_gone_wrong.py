"""Loops that go wrong in ways a watch must not misread: eval mode, NaN, rates that collapse, experts that fall idle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_zoo import batch, mlp

import gradlab
from gradlab.torch.diagnosis import diagnose_history
from gradlab.torch.statistics import measure_saturation


def trained(
    model: nn.Module, steps: int = 12, before: Callable[[int, Any], None] = lambda step, optimizer: None, **options: Any
) -> Any:
    x, y = batch()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with gradlab.watch(model, optimizer, **{"every": 1, "quiet": True, **options}) as watch:
        for step in range(steps):
            before(step, optimizer)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return watch


def test_training_in_eval_mode_is_seen_and_named_where_it_matters() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    assert "training_in_eval_mode" in trained(model.eval()).diagnose().codes
    assert "training_in_eval_mode" not in trained(model.train()).diagnose().codes
    assert "training_in_eval_mode" not in trained(mlp(2).eval()).diagnose().codes  # nothing in it has modes


def test_nan_in_eval_mode_is_placed_where_it_begins() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(32, 32), nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.log(self.first(x) - 100))

    (found,) = [one for one in trained(Broken().eval(), 2).diagnose().found if one.code == "nonfinite"]
    assert found.where != "the loss"


def test_weights_that_are_nan_are_not_taken_for_steps() -> None:
    model = mlp(2)
    x, y = batch()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with torch.no_grad():
        model[0].weight.fill_(math.nan)
    with gradlab.watch(model, optimizer, every=1, quiet=True) as watch:
        for _ in range(3):
            optimizer.zero_grad()
            for _ in range(4):
                (nn.functional.cross_entropy(model(x), y) / 4).backward()
            optimizer.step()
    assert watch.step == 3


def test_zero_is_not_at_the_ends_of_tanh() -> None:
    assert measure_saturation(torch.zeros(8), 0.0, 0.0, "Tanh") == 0.0
    assert measure_saturation(torch.zeros(8), 0.0, 0.0, "Sigmoid") == 1.0
    assert measure_saturation(torch.ones(8), 1.0, 1.0, "tanh") == 1.0


def test_a_rate_that_collapses_is_named_and_one_that_ends_at_zero_is_not() -> None:
    def collapse(step: int, optimizer: Any) -> None:
        optimizer.param_groups[0]["lr"] *= 0.01

    def anneal(step: int, optimizer: Any) -> None:
        optimizer.param_groups[0]["lr"] = 0.05 * (1 + math.cos(math.pi * step / 11))

    torch.manual_seed(0)
    assert {"steps_too_small", "does_not_move"} & set(trained(mlp(2), 12, collapse).diagnose().codes)
    assert not {"steps_too_small", "does_not_move"} & set(trained(mlp(2), 12, anneal).diagnose().codes)


class Mixture(nn.Module):
    """Four experts; `reached` says which are used."""

    def __init__(self) -> None:
        super().__init__()
        self.experts, self.head = nn.ModuleList(nn.Linear(32, 32) for _ in range(4)), nn.Linear(32, 4)
        self.reached = [0, 1, 2, 3]

    def forward(self, x: Tensor) -> Tensor:
        parts = x.split(len(x) // len(self.reached))
        return self.head(torch.cat([self.experts[at](part) for at, part in zip(self.reached, parts, strict=True)]))


def test_experts_that_fall_idle_are_named_although_they_were_used_at_first() -> None:
    torch.manual_seed(0)
    model = Mixture()

    def abandon(step: int, optimizer: Any) -> None:
        model.reached = [0, 1, 2, 3] if step < 4 else [0, 1]

    found = {one.code: one for one in trained(model, 12, abandon).diagnose().found}
    assert found["experts_never_chosen"].numbers == {"idle": 2, "experts": 4}


def test_few_tokens_may_leave_an_expert_out() -> None:
    model = Mixture()
    model.reached = [0, 2]
    x = torch.randn(32, 32)
    with gradlab.probe(model) as p:
        model(x).sum().backward()
    assert "experts_never_chosen" not in p.diagnose().codes


def test_almost_everything_frozen_is_not_everything() -> None:
    model = nn.Sequential(nn.Linear(32, 2000), nn.Linear(2000, 4))
    model[0].requires_grad_(False)
    (found,) = [one for one in trained(model, 2).diagnose().noted if one.code == "frozen"]
    assert "over 99 %" not in found.evidence
    assert found.numbers["share"] < 1
    wide = nn.Sequential(nn.Linear(32, 20000), nn.Linear(20000, 4, bias=False), nn.Linear(4, 4))
    for module in wide[:2]:
        module.requires_grad_(False)
    (found,) = [one for one in trained(wide, 2).diagnose().noted if one.code == "frozen"]
    assert "over 99 %" in found.evidence


def test_a_loss_near_zero_does_not_spike() -> None:
    def codes(peak: float) -> set[str]:
        falling = [2.0 * 0.5**step for step in range(40)]
        curves = {"loss": dict(enumerate([*falling[:30], peak, *falling[31:]]))}
        return {finding.code for finding in diagnose_history((), curves).all}

    assert "loss_spikes" not in codes(4.85e-6)
    assert "loss_spikes" in codes(4.85)


def test_the_overhead_is_measured_against_steps_without_a_probe() -> None:
    watch = trained(mlp(2), 40, every=4)
    assert watch.measures_overhead
    assert watch.overhead is not None
    assert "at least" not in watch.summary
    dense = trained(mlp(2), 10)
    assert not dense.measures_overhead
    assert "at least" in dense.summary


@pytest.mark.parametrize("grad", [True, False])
def test_an_evaluation_without_no_grad_is_not_a_step(grad: bool) -> None:
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradlab.watch(model, optimizer, every=1, quiet=True) as watch:
        for _ in range(3):
            model.eval()
            with torch.set_grad_enabled(grad):
                model(x)
            model.train()
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert watch.step == 3
    assert len(watch.curves()["loss"]) == 3

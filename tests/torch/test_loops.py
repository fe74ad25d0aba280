"""Loops that do something unusual: the same to the last bit under a watch, every step counted, no gradient lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint
from torch_zoo import batch, mlp

import gradlab


def test_an_optimizer_that_steps_and_clears_inside_the_backward_pass_loses_no_gradient() -> None:
    def train(watched: bool) -> tuple[nn.Module, Any, list[dict[str, float]]]:
        torch.manual_seed(0)
        model = mlp(3)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        optimizers = {id(p): torch.optim.SGD([p], lr=0.05) for p in model.parameters()}
        norms: list[dict[str, float]] = []

        def step_and_clear(parameter: torch.Tensor) -> None:
            norms[-1][names[id(parameter)]] = float(parameter.grad.norm())
            optimizers[id(parameter)].step()
            optimizers[id(parameter)].zero_grad()

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(step_and_clear)
        x, y = batch()
        watch = gradlab.watch(model, list(optimizers.values()), every=2, quiet=True) if watched else None
        for _ in range(6):
            norms.append({})
            nn.functional.cross_entropy(model(x), y).backward()
        if watch is not None:
            watch.close()
        return model, watch, norms

    alone, _, _ = train(watched=False)
    model, watch, norms = train(watched=True)
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), model.parameters(), strict=True))
    assert (watch.step, [moment.step for moment in watch.moments]) == (6, [0, 2, 4])
    for moment in watch.moments:
        rows = moment.probe.parameters().set_index("name")
        assert rows.grad_l2.to_dict() == pytest.approx(norms[moment.step], rel=1e-5)
        assert (rows.update_ratio.dropna() > 0).all()
        assert all(row.delta for row in moment.probe.modules.values())
    assert len(watch.curves()["loss"]) == 6
    assert all(len(parameter._post_accumulate_grad_hooks) == 1 for parameter in model.parameters())
    assert not watch.skipped


def test_a_backward_pass_that_fails_leaves_the_watch_counting() -> None:
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradlab.watch(model, optimizer, every=1, quiet=True) as watch:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        with pytest.raises(RuntimeError):
            loss.backward()
        optimizer.step()
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert (watch.step, [moment.step for moment in watch.moments]) == (3, [0, 1, 2])


def train_as_guest(kind: str, watched: bool) -> tuple[nn.Module, Any]:
    """Six steps of a loop that does something unusual, with or without a watch."""
    torch.manual_seed(0)
    model, (x, y) = mlp(3), batch()
    averaged = AveragedModel(model) if kind == "average" else None
    optimizer: Any = torch.optim.Adam(model.parameters(), 1e-3)
    if kind == "lbfgs":
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    watch = gradlab.watch(model, optimizer, every=2, quiet=True) if watched else None

    def closure() -> Any:
        optimizer.zero_grad()
        if kind.startswith("checkpoint"):
            given = x.clone().requires_grad_()
            loss = nn.functional.cross_entropy(checkpoint(model, given, use_reentrant=kind == "checkpoint again"), y)
        else:
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(6):
        if kind == "lbfgs":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
        if averaged is not None:
            averaged.update_parameters(model)
    if watch is not None:
        watch.close()
    return (model if averaged is None else averaged), watch


@pytest.mark.parametrize("kind", ["lbfgs", "average", "checkpoint", "checkpoint again"])
def test_unusual_loops_stay_the_same_to_the_last_bit(kind: str) -> None:
    (alone, _), (model, watch) = train_as_guest(kind, watched=False), train_as_guest(kind, watched=True)
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), model.parameters(), strict=True))
    assert (watch.step, [moment.step for moment in watch.moments]) == (6, [0, 2, 4])
    assert all(moment.probe.parameters().grad_l2.notna().all() for moment in watch.moments)
    assert not watch.skipped
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())

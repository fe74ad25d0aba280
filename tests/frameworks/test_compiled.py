"""Compiled steps under a watch, with every backend: training goes on, and an optimizer's step keeps its bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch_zoo import batch, mlp

import gradlab

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]
BACKENDS = ("eager", "aot_eager", "inductor")


def train(backend: str, watched: bool, whole: bool) -> tuple[nn.Module, Any]:
    """Eight steps of Adam; the optimizer's step is compiled, or the step as a whole."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model, (x, y) = mlp(2), batch()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    watch = gradlab.watch(model, optimizer, every=3, quiet=True) if watched else None
    compiled = torch.compile(optimizer.step, backend=backend)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step() if whole else compiled()

    run = torch.compile(step, backend=backend) if whole else step
    for _ in range(8):
        run()
    if watch is not None:
        watch.close()
        assert (watch.step, [moment.step for moment in watch.moments]) == (8, [0, 3, 6])
        assert all(len(moment.probe.modules) == 5 for moment in watch.moments)
        assert not watch.skipped
    return model, watch


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_step_of_the_optimizer_keeps_its_bits(backend: str) -> None:
    (alone, _), (model, _) = train(backend, False, whole=False), train(backend, True, whole=False)
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), model.parameters(), strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_that_is_compiled_as_a_whole_is_the_same_up_to_rounding(backend: str) -> None:
    (alone, _), (model, _) = train(backend, False, whole=True), train(backend, True, whole=True)
    for a, b in zip(alone.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)  # probed steps run eagerly

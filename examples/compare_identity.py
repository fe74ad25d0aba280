"""The "distant identity" write-up as hand-written PyTorch: audited, then compared.

    gradlab audit examples/compare_identity.py:AS_WRITTEN      # exit code 3: one arm's weights are 0.2236 × the other's
    gradlab audit examples/compare_identity.py:CORRECTED       # the only difference is the forward pass
    gradlab compare examples/compare_identity.py:train --audit examples/compare_identity.py:CORRECTED

The question is the write-up's: does a 20-layer network of width 64 learn to copy its input, with a skip and without?
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import gradlab

DEPTH, WIDTH, SAMPLES, BATCH, STEPS = 20, 64, 1024, 64, 500


class Net(nn.Module):
    """Twenty ReLU layers; with `skip`, each adds to its input."""

    def __init__(self, skip: bool, scale: float) -> None:
        super().__init__()
        self.skip = skip
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
            with torch.no_grad():
                layer.weight *= scale

    def forward(self, x: Tensor) -> Tensor:
        """Layer by layer."""
        for layer in self.layers:
            y = torch.relu(layer(x))
            x = x + y if self.skip else y
        return x


def make(skip: bool, scale: float) -> tuple[nn.Module, Any, Any, Callable[..., Tensor]]:
    """(model, optimizer, loader, loss), as the audit wants them."""
    net = Net(skip, scale)
    data = 2 * torch.rand(SAMPLES, WIDTH) - 1
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, data), BATCH, shuffle=True)
    return net, torch.optim.Adam(net.parameters(), lr=1e-3), loader, nn.functional.mse_loss


SCALE = DEPTH**-0.5
AS_WRITTEN = {"plain": partial(make, skip=False, scale=1.0), "residual": partial(make, skip=True, scale=SCALE)}
CORRECTED = {"plain": partial(make, skip=False, scale=SCALE), "residual": partial(make, skip=True, scale=SCALE)}
ARMS = {"plain": {"skip": False}, "residual": {"skip": True}}


def train(skip: bool, seed: int, steps: int = STEPS) -> dict[str, Any]:
    """One training; the generators are already set to `seed`. What it returns is kept."""
    net, optimizer, loader, loss = make(skip, SCALE)
    losses: list[float] = []
    with gradlab.watch(net, optimizer, every=50, quiet=True) as inside:
        while len(losses) < steps:
            for x, y in loader:
                value = loss(net(x), y)
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
                losses.append(value.item())
    losses = losses[:steps]
    return {"loss": losses, "final_loss": sum(losses[-10:]) / 10, "inside": inside}

"""The reference engine against PyTorch eager: one thread, data in memory, fused Adam, the same networks and batches.

    python benchmarks/reference.py          (needs gradlab[bench]; about a minute; pins itself to one core)

Prints milliseconds per step of each, best of several rounds taken in turn, and their ratio.
"""

from __future__ import annotations

import os

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import platform
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch

import gradlab
from gradlab.engines.reference import Reference
from gradlab.trial.setup import Setup, prepare

ROUNDS = 5
WORKLOADS = {
    "identity: 20 × 64, batch 64, residual": {
        "data": {"task": "identity"},
        "model": {"stem": "none", "head": "none", "depth": 20, "width": 64, "skip": "identity",
                  "init": {"kind": "he_normal", "scale": "1/sqrt(depth)"}},
        "train": {"loss": "mse", "optimizer": "adam", "lr": 1e-3, "batch": 64, "steps": 300},
    },
    "depth: 30 × 32, batch 256, MNIST, residual": {
        "data": {"task": "mnist", "validation": 0, "test": 0},
        "model": {"depth": 30, "width": 32, "skip": "add_then_activate"},
        "train": {"loss": "cross_entropy", "optimizer": "adam", "lr": 1e-4, "batch": 256, "steps": 150},
    },
}  # fmt: skip


def realised(base: dict[str, Any]) -> Setup:
    """The trial that both engines train."""
    tree = {"question": "How fast?", "base": base, "seeds": 1, "measure": {"layers": []}}
    return prepare(gradlab.dry_run(tree).trials[0])


class TorchNet(torch.nn.Module):
    """The same network as a plain module."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        named = setup.mlp.layout.named(setup.theta)
        self.layers = torch.nn.ModuleList()
        for layer in setup.mlp.layers:
            linear = torch.nn.Linear(layer.fan_in, layer.fan_out)
            linear.weight.data = torch.tensor(named[f"layer{layer.number}.weight"].T.copy())
            linear.bias.data = torch.tensor(named[f"layer{layer.number}.bias"])
            self.layers.append(linear)
        self.stem, self.head, self.skip = setup.mlp.stem, setup.mlp.head, setup.mlp.skip.name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Stem, blocks, head."""
        layers = list(self.layers)
        if self.stem:
            x = torch.relu(layers.pop(0)(x))
        head = layers.pop() if self.head else None
        for layer in layers:
            x = x + torch.relu(layer(x)) if self.skip == "identity" else torch.relu(layer(x) + x)
        return head(x) if head else x


def torch_seconds(setup: Setup) -> tuple[float, float]:
    """Seconds per step of eager PyTorch, and the last loss."""
    net = TorchNet(setup)
    optimizer = torch.optim.Adam(net.parameters(), setup.trial.config.train.lr, fused=True)
    x, y = (torch.tensor(a) for a in setup.dataset.gather(setup.dataset.train, np.float32))
    loss_of = torch.nn.functional.mse_loss if setup.loss.name == "mse" else torch.nn.functional.cross_entropy
    place = {int(row): index for index, row in enumerate(setup.dataset.train)}
    batches = [torch.tensor([place[int(row)] for row in rows]) for _, rows in setup.batches()]
    start = perf_counter()
    for rows in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(net(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    return (perf_counter() - start) / setup.steps, loss.item()


def gradlab_seconds(setup: Setup) -> tuple[float, float]:
    """Seconds per step of the reference engine, bookkeeping included, and the last loss."""
    start = perf_counter()
    outcome = Reference().train(setup)
    return (perf_counter() - start) / setup.steps, float(outcome.metrics["last_loss"] or 0)


def best(*runs: Callable[[], tuple[float, float]]) -> list[tuple[float, float]]:
    """The best time of each run over several rounds in turn, with its last loss."""
    rounds = [[run() for run in runs] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def main() -> None:
    """One line per workload."""
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})
    print(f"{platform.machine()}, numpy {np.__version__}, torch {torch.__version__}, 1 thread, best of {ROUNDS}\n")
    print(f"{'workload':<46}{'gradlab ms':>12}{'torch ms':>12}{'ratio':>8}   last losses")
    for name, base in WORKLOADS.items():
        setup = realised(base)
        ours, theirs = best(lambda s=setup: gradlab_seconds(s), lambda s=setup: torch_seconds(s))
        print(
            f"{name:<46}{1e3 * ours[0]:>12.3f}{1e3 * theirs[0]:>12.3f}{theirs[0] / ours[0]:>8.2f}"
            f"   {ours[1]:.4f} {theirs[1]:.4f}"
        )


if __name__ == "__main__":
    main()

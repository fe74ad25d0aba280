"""What a fault or a healthy network is for the zoo: a model, its optimizer, one step of a training loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Loss = Callable[[Any, Any], Tensor]
ENTROPY: Loss = nn.functional.cross_entropy


@dataclass
class Training:
    """A training loop, step by step."""

    model: nn.Module
    optimizer: Any
    step: Callable[[int], Any]
    """Make the step of this number; what it returns is not used."""
    steps: int = 30
    logged: dict[str, Callable[[int], float]] | None = None
    """Scalars that the user logs besides, by name: step -> value."""


Faults = dict[str, tuple[Callable[[], Training], tuple[str, ...]]]
"""Faults by name, each with the findings that name its cause."""


def name_into(faults: Faults) -> Callable[..., Callable[[Callable[[], Training]], Callable[[], Training]]]:
    """Return the decorator that adds a fault to a set: `@named("dead units")`."""

    def named(*names: str) -> Callable[[Callable[[], Training]], Callable[[], Training]]:
        def register(make: Callable[[], Training]) -> Callable[[], Training]:
            faults[make.__name__.replace("_", " ")] = (make, names)
            return make

        return register

    return named


def train_on(
    model: nn.Module,
    optimizer: Any,
    batches: Callable[[int], tuple[Any, Any]],
    loss: Loss = ENTROPY,
    steps: int = 30,
) -> Training:
    """Train as everybody does: clear, forward, backward, step."""

    def step(index: int) -> None:
        x, y = batches(index)
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return Training(model, optimizer, step, steps)


def features(count: int = 512, size: int = 32, classes: int = 4, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Return samples of a task that can be learned: labels by a random linear teacher."""
    made = torch.Generator().manual_seed(seed)
    x = torch.randn(count, size, generator=made)
    return x, (x @ torch.randn(size, classes, generator=made)).argmax(1)


def batches_of(x: Any, y: Any, size: int = 64) -> Callable[[int], tuple[Any, Any]]:
    """Return a function that gives the batch of a step, over and over through the samples."""
    count = len(x) // size

    def batch(index: int) -> tuple[Any, Any]:
        where = slice(size * (index % count), size * (index % count + 1))
        return x[where], y[where]

    return batch


def images(count: int = 128, side: int = 16, channels: int = 3, classes: int = 4) -> tuple[Tensor, Tensor]:
    """Return images whose brightest quarter is the label, plus noise."""
    made = torch.Generator().manual_seed(2)
    x, y = torch.randn(count, channels, side, side, generator=made), torch.arange(count) % classes
    half = side // 2
    for index, label in enumerate(y.tolist()):
        x[index, :, half * (label // 2) : half * (label // 2 + 1), half * (label % 2) : half * (label % 2 + 1)] += 1.0
    return x, y % classes


def words(count: int = 128, length: int = 16, vocabulary: int = 64) -> Tensor:
    """Return sequences in which each token is the one before plus a step that the sequence keeps."""
    made = torch.Generator().manual_seed(3)
    start, stride = (torch.randint(0, vocabulary, (count, 1), generator=made), torch.arange(count)[:, None] % 4 + 1)
    return (start + stride * torch.arange(length)) % vocabulary


def perceptron(depth: int = 3, width: int = 32, act: Callable[[], nn.Module] = nn.ReLU, out: int = 4) -> nn.Sequential:
    """Return a multilayer perceptron at PyTorch's own initialization."""
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), act())]
    return nn.Sequential(*layers, nn.Linear(width, out))


def adam(model: nn.Module, rate: float = 1e-3) -> torch.optim.Optimizer:
    """Return Adam."""
    return torch.optim.Adam(model.parameters(), rate)


def sgd(model: nn.Module, rate: float = 0.05, **options: Any) -> torch.optim.Optimizer:
    """Return plain gradient descent."""
    return torch.optim.SGD(model.parameters(), rate, **options)

"""The register of healthy networks: name, package, and a function that makes the model and its loss."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor, nn

Case = tuple[nn.Module, Callable[[], Tensor]]
MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
HEALTHY: dict[str, Callable[[], Case]] = {}
PACKAGE: dict[str, str] = {}


def healthy(package: str, name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Register a network of a package."""

    def register(make: Callable[[], Case]) -> Callable[[], Case]:
        HEALTHY[name], PACKAGE[name] = make, package
        return make

    return register


def missing(name: str) -> bool:
    """Whether the package of a network is not installed."""
    return find_spec(PACKAGE[name]) is None


def labels(count: int, classes: int = 10) -> Tensor:
    """Return labels of a batch."""
    return torch.arange(count) % classes
